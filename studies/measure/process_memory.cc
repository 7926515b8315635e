#include "studies/measure/process_memory.h"

#include <fstream>
#include <string>

namespace ibcoll {

int64_t proportional_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  int64_t kilobytes = 0;
  while (file >> word) {
    if (word == "Pss:" && file >> kilobytes) return kilobytes * 1024;
  }
  return -1;
}

}  // namespace ibcoll
