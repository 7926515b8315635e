/* Whether two headers of MPI's standard ABI say the same: constants.c was compiled with each. */
#include <stdio.h>
#include <string.h>

#include "integrations/mpi/mpi_constants.h"

void ours(ibcoll_mpi_finder find, struct ibcoll_mpi_constants* constants);
void forums(ibcoll_mpi_finder find, struct ibcoll_mpi_constants* constants);

static struct ibcoll_mpi_constants g_ours, g_forums;

static int differs(const char* what, size_t i, uintptr_t our, uintptr_t forum) {
  if (our == forum) return 0;
  printf("%s %zu: 0x%zx, not 0x%zx\n", what, i, (size_t)our, (size_t)forum);
  return 1;
}

int main(void) {
  ours(NULL, &g_ours);
  forums(NULL, &g_forums);
  int wrong = differs("types", 0, g_ours.type_count, g_forums.type_count) +
              differs("operators", 0, g_ours.operator_count, g_forums.operator_count);
  for (size_t i = 0; i < g_ours.type_count; ++i)
    wrong += differs("type", i, g_ours.types[i].handle, g_forums.types[i].handle);
  for (size_t i = 0; i < g_ours.operator_count; ++i)
    wrong += differs("operator", i, g_ours.operators[i].handle, g_forums.operators[i].handle);
  /* The others stand before them: handles and numbers. */
  const unsigned char *const our = (const unsigned char*)&g_ours,
                             *const forum = (const unsigned char*)&g_forums;
  for (size_t at = 0; at < offsetof(struct ibcoll_mpi_constants, type_count); ++at)
    wrong += differs("byte", at, our[at], forum[at]);
  if (g_ours.type_count < 50) wrong += puts("types are missing") >= 0;
  if (wrong == 0) puts("well done");
  return wrong != 0;
}
