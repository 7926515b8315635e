#include "called.h"

#include "sweep.h"

int g_form = BLOCKING, g_starts = 1;

static void expect(int is, const char* what) {
  if (!is) wrong(what, "a request", 0, 0, 1);
}

void complete(MPI_Request* request) {
  static int way = 0;
  MPI_Request two[2] = {MPI_REQUEST_NULL, *request};
  MPI_Status statuses[2];
  int flag = 0, index = -1, count = 0, indices[2];
  switch (way++ % 9) {
    case 0:
      MPI_Wait(&two[1], &statuses[1]);
      break;
    case 1:
      while (!flag) MPI_Test(&two[1], &flag, MPI_STATUS_IGNORE);
      break;
    case 2:
      MPI_Waitall(2, two, statuses);
      break;
    case 3:
      while (!flag) MPI_Testall(2, two, &flag, MPI_STATUSES_IGNORE);
      break;
    case 4:
      MPI_Waitany(2, two, &index, &statuses[0]);
      expect(index == 1, "MPI_Waitany");
      break;
    case 5:
      while (!flag) MPI_Testany(2, two, &index, &flag, MPI_STATUS_IGNORE);
      expect(index == 1, "MPI_Testany");
      break;
    case 6:
      MPI_Waitsome(2, two, &count, indices, MPI_STATUSES_IGNORE);
      expect(count == 1 && indices[0] == 1, "MPI_Waitsome");
      break;
    case 7:
      while (count == 0) MPI_Testsome(2, two, &count, indices, statuses);
      expect(count == 1 && indices[0] == 1, "MPI_Testsome");
      break;
    default:
      while (!flag) MPI_Request_get_status(two[1], &flag, MPI_STATUS_IGNORE);
      MPI_Wait(&two[1], MPI_STATUS_IGNORE);
      break;
  }
  /* What is persistent stays. */
  expect(two[1] == MPI_REQUEST_NULL || two[1] == *request, "the request afterwards");
  *request = two[1];
}

void start_and_complete(MPI_Request* request) {
  for (int start = 0; start < g_starts; ++start) {
    if (start % 2 == 0)
      MPI_Start(request);
    else
      MPI_Startall(1, request);
    complete(request);
    expect(*request != MPI_REQUEST_NULL, "a persistent request");
  }
  MPI_Request_free(request);
  expect(*request == MPI_REQUEST_NULL, "MPI_Request_free");
}
