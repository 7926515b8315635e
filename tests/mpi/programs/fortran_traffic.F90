! A program whose traffic is known, for the test of the record, by mpif.h, the module mpi or mpi_f08,
! as IBCOLL_INTERFACE says: 0, 1, 2.
program traffic
#if IBCOLL_INTERFACE == 2
  use mpi_f08
#elif IBCOLL_INTERFACE == 1
  use mpi
#endif
  implicit none
#if IBCOLL_INTERFACE == 0
  include 'mpif.h'
#endif
#if IBCOLL_INTERFACE == 2
  type(MPI_Request) :: request
#else
  integer :: request
#endif
  integer, parameter :: most = 64
  integer :: ierror, rank, ranks, next, previous, i
  double precision :: there(3, most), here(3, most)

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  next = mod(rank + 1, ranks)
  previous = mod(rank + ranks - 1, ranks)
  there = 1d0

  call MPI_Alltoall(there, 3, MPI_DOUBLE_PRECISION, here, 3, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, ierror)
  call MPI_Ireduce(there, here, 5, MPI_DOUBLE_PRECISION, MPI_SUM, 1, MPI_COMM_WORLD, request, ierror)
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)

  call MPI_Sendrecv(there, 7, MPI_DOUBLE_PRECISION, next, 1, here, 7, MPI_DOUBLE_PRECISION, previous, 1, &
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
  call MPI_Isend(there, 9, MPI_DOUBLE_PRECISION, next, 2, MPI_COMM_WORLD, request, ierror)
  call MPI_Recv(here, 9, MPI_DOUBLE_PRECISION, previous, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)

  if (rank == 0) then
    call MPI_Send_init(there, 11, MPI_DOUBLE_PRECISION, ranks - 1, 3, MPI_COMM_WORLD, request, ierror)
    do i = 1, 2
      call MPI_Start(request, ierror)
      call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
    end do
    call MPI_Request_free(request, ierror)
  else if (rank == ranks - 1) then
    do i = 1, 2
      call MPI_Recv(here, 11, MPI_DOUBLE_PRECISION, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    end do
  end if
  call MPI_Finalize(ierror)
end program
