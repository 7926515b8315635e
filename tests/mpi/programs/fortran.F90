! Collectives from Fortran, by mpif.h, the module mpi or mpi_f08, as IBCOLL_INTERFACE says: 0, 1, 2.
! With IBCOLL_OLD_NAMES persistent ones have the names they had before MPI 4.0.
! Checks the results, and ends with "well done" from rank 0.
program collectives
#if IBCOLL_INTERFACE == 2
  use mpi_f08
#ifdef IBCOLL_OLD_NAMES
  use mpi_f08_ext
#endif
#elif IBCOLL_INTERFACE == 1
  use mpi
#endif
#if IBCOLL_INTERFACE == 2
  use, intrinsic :: iso_c_binding
#endif
  implicit none
#ifdef IBCOLL_OLD_NAMES
#define PREPARE MPIX_Allreduce_init
#else
#define PREPARE MPI_Allreduce_init
#endif
#if IBCOLL_INTERFACE == 2
#define REQUEST type(MPI_Request)
#else
#define REQUEST integer
#endif
#if IBCOLL_INTERFACE == 0
  include 'mpif.h'
#endif
  integer, parameter :: n = 300
  integer :: ierror, rank, ranks, i, peer
  integer, allocatable :: send(:, :), recv(:, :)
  double precision :: sums(n), mine(2), most(2)
  complex :: rotated(3), products(3)
  logical :: flag, all_flags
  integer :: highest(2)
  REQUEST :: requests(3)
  integer :: start
  integer, allocatable :: later(:, :)
  double precision :: least(2), total
  double precision :: turned(4)
#if IBCOLL_INTERFACE == 2
  type(MPI_Op) :: op
  type(MPI_Datatype) :: pair
  type(MPI_Datatype), allocatable :: types(:)
  type(MPI_Comm) :: line
#else
  integer :: op, pair, line
  integer, allocatable :: types(:)
#endif
  integer, allocatable :: ones(:), places(:), mine_of(:), theirs(:)
  integer :: sides(2), around(2), extents(1)
  logical :: closed(1)

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  allocate(send(n, ranks), recv(n, ranks))

  do peer = 1, ranks
    do i = 1, n
      send(i, peer) = 100000 * rank + 1000 * peer + i
    end do
  end do
  call MPI_Alltoall(send, n, MPI_INTEGER, recv, n, MPI_INTEGER, MPI_COMM_WORLD, ierror)
  do peer = 1, ranks
    do i = 1, n
      if (recv(i, peer) /= 100000 * (peer - 1) + 1000 * (rank + 1) + i) call wrong('alltoall')
    end do
  end do

  sums = dble(rank + 1)
  call MPI_Allreduce(MPI_IN_PLACE, sums, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierror)
  if (any(sums /= dble(ranks * (ranks + 1) / 2))) call wrong('allreduce in place')

  mine = (/ dble(rank), -dble(rank) /)
  call MPI_Reduce(mine, most, 2, MPI_REAL8, MPI_MAX, 0, MPI_COMM_WORLD, ierror)
  if (rank == 0) then
    if (most(1) /= dble(ranks - 1) .or. most(2) /= 0d0) call wrong('reduce')
  end if

  rotated = (0.0, 1.0)
  call MPI_Scan(rotated, products, 3, MPI_COMPLEX, MPI_PROD, MPI_COMM_WORLD, ierror)
  if (any(products /= (0.0, 1.0) ** (rank + 1))) call wrong('scan')

  highest = (/ rank, rank * 10 /)
  call MPI_Bcast(highest, 2, MPI_INTEGER, ranks - 1, MPI_COMM_WORLD, ierror)
  if (highest(1) /= ranks - 1 .or. highest(2) /= (ranks - 1) * 10) call wrong('bcast')

  allocate(types(ranks), ones(ranks), places(ranks), mine_of(ranks), theirs(ranks))
  types = MPI_INTEGER
  ones = 1
  places = (/ (4 * (i - 1), i = 1, ranks) /)
  mine_of = (/ (rank * 100 + i, i = 1, ranks) /)
  call MPI_Alltoallw(mine_of, ones, places, types, theirs, ones, places, types, MPI_COMM_WORLD, ierror)
  if (any(theirs /= (/ ((i - 1) * 100 + rank + 1, i = 1, ranks) /))) call wrong('alltoallw')

  extents = ranks
  closed = .false.
  call MPI_Cart_create(MPI_COMM_WORLD, 1, extents, closed, .false., line, ierror)
  sides = (/ rank * 10, rank * 10 + 1 /)
  around = -1
  call MPI_Neighbor_alltoall(sides, 1, MPI_INTEGER, around, 1, MPI_INTEGER, line, ierror)
  if (around(1) /= merge(-1, (rank - 1) * 10 + 1, rank == 0)) call wrong('neighbor_alltoall')
  if (around(2) /= merge(-1, (rank + 1) * 10, rank == ranks - 1)) call wrong('neighbor_alltoall')
  call MPI_Comm_free(line, ierror)

  ! The program's own operator: (a, b) op (c, d) = (a c, a d + b), which does not commute.
  call MPI_Type_contiguous(2, MPI_DOUBLE_PRECISION, pair, ierror)
  call MPI_Type_commit(pair, ierror)
  call MPI_Op_create(after, .false., op, ierror)
  turned = (/ 2d0, dble(rank), 1d0, dble(rank) /)
  call MPI_Allreduce(MPI_IN_PLACE, turned, 2, pair, op, MPI_COMM_WORLD, ierror)
  call MPI_Op_free(op, ierror)
  call MPI_Type_free(pair, ierror)
  if (turned(1) /= 2d0 ** ranks .or. turned(2) /= sum((/ (i * 2d0 ** i, i = 0, ranks - 1) /))) call wrong('own operator')
  if (turned(3) /= 1d0 .or. turned(4) /= dble(ranks * (ranks - 1) / 2)) call wrong('own operator')

  ! Fortran's own type, which the MPI combines.
  flag = rank >= 0
  call MPI_Allreduce(flag, all_flags, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, ierror)
  if (.not. all_flags) call wrong('logical')

  ! Nonblocking, several at a time.
  allocate(later(n, ranks))
  call MPI_Ialltoall(send, n, MPI_INTEGER, later, n, MPI_INTEGER, MPI_COMM_WORLD, requests(1), ierror)
  call MPI_Iallreduce(mine, least, 2, MPI_REAL8, MPI_MIN, MPI_COMM_WORLD, requests(2), ierror)
  call MPI_Ibarrier(MPI_COMM_WORLD, requests(3), ierror)
  flag = .false.
  do while (.not. flag)
    call MPI_Test(requests(2), flag, MPI_STATUS_IGNORE, ierror)
  end do
  if (requests(2) /= MPI_REQUEST_NULL) call wrong('test')
  call MPI_Waitall(3, requests, MPI_STATUSES_IGNORE, ierror)
  do peer = 1, ranks
    do i = 1, n
      if (later(i, peer) /= 100000 * (peer - 1) + 1000 * (rank + 1) + i) call wrong('ialltoall')
    end do
  end do
  if (least(1) /= 0d0 .or. least(2) /= -dble(ranks - 1)) call wrong('iallreduce')

  ! Persistent.
  call PREPARE(mine, most, 2, MPI_REAL8, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1), ierror)
  total = dble(ranks * (ranks - 1) / 2)
  do start = 1, 4
    mine = (/ dble(rank * start), dble(start) /)
    call MPI_Start(requests(1), ierror)
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE, ierror)
    if (most(1) /= start * total .or. most(2) /= dble(start * ranks)) call wrong('allreduce_init')
  end do
  call MPI_Request_free(requests(1), ierror)
  call allocated

  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  call MPI_Finalize(ierror)
  if (rank == 0) print '(a)', 'well done'

contains
#if IBCOLL_INTERFACE == 2
  subroutine after(left, right, length, datatype)
    type(c_ptr), value :: left, right
    integer :: length, at
    type(MPI_Datatype) :: datatype
    double precision, pointer :: a(:, :), b(:, :)
    call c_f_pointer(left, a, (/ 2, length /))
    call c_f_pointer(right, b, (/ 2, length /))
#else
  subroutine after(a, b, length, datatype)
    integer :: length, datatype, at
    double precision :: a(2, length), b(2, length)
#endif
    do at = 1, length
      b(:, at) = (/ a(1, at) * b(1, at), a(1, at) * b(2, at) + a(2, at) /)
    end do
  end subroutine
  ! Memory of MPI_Alloc_mem, by a Cray pointer or a C_PTR.
  subroutine allocated
#if IBCOLL_INTERFACE == 0
    double precision :: values(10000)
    pointer (place, values)
#else
    use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
    double precision, pointer :: values(:)
    type(c_ptr) :: place
#endif
    integer(kind=MPI_ADDRESS_KIND) :: bytes
    bytes = 80000
    call MPI_Alloc_mem(bytes, MPI_INFO_NULL, place, ierror)
#if IBCOLL_INTERFACE != 0
    call c_f_pointer(place, values, (/ 10000 /))
#endif
    values = dble(rank)
    call MPI_Bcast(values, 10000, MPI_DOUBLE_PRECISION, ranks - 1, MPI_COMM_WORLD, ierror)
    if (any(values /= dble(ranks - 1))) call wrong('bcast in memory of MPI_Alloc_mem')
    call MPI_Free_mem(values, ierror)
    if (ierror /= MPI_SUCCESS) call wrong('MPI_Free_mem')
  end subroutine

  subroutine wrong(what)
    character(*), intent(in) :: what
    integer :: failed
    print '(3a)', 'wrong: ', what, ' from Fortran'
    call MPI_Abort(MPI_COMM_WORLD, 3, failed)
  end subroutine
end program
