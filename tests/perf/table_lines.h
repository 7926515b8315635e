#pragma once
/// Lines that compare_mpi --json writes, whose figures a test makes up.

#include <gtest/gtest.h>

#include <string>

#include "perf/compare/tables.h"

namespace ibcoll::compare {

inline constexpr const char* kMachine =
    R"({"kind":"machine","processor":"Fast One","usable_cores":4,)"
    R"("caches":[{"name":"L1d","bytes":32768},{"name":"L2","bytes":1048576}]})"
    "\n";
inline constexpr const char* kCosts =
    R"({"kind":"pair_costs","distance":"near","bytes":[4096,16384,65536],"round_trip_ns":120.5,)"
    R"("write_ns":[150,1400,9500],"read_ns":[200,550,1800],"stream_write_ns":[0,0,0],)"
    R"("stream_read_ns":[0,0,0],"vm_call_ns":0,"vm_page_ns":0,"vm_huge_ns_per_kb":0,"wake_ns":0})"
    "\n"
    R"({"kind":"machine_costs","bytes":[4096,16384,65536],"copy_ns":[70,350,1440],)"
    R"("memory_ns_per_kb":41,"yield_ns":0,"hand_over_ns":0,"spread":0.1})"
    "\n";
inline constexpr const char* kState =
    R"({"kind":"machine_state","when":"before","load_average":[0.5,1,2],"others_percent":1.25,)"
    R"("steal_percent":null})"
    "\n";
inline constexpr const char* kCell =
    R"({"collective":"bcast","ranks":2,"bytes_per_pair":1024,"memory":"user","ibcoll_us":2.0,)"
    R"("copy_fraction":0.5,"speedup":1.5,"speedup_low":1.25,"speedup_high":1.75,)"
    R"("speedup_of_rounds":1.625})"
    "\n";
inline constexpr const char* kSlowCell =
    R"({"collective":"scan","ranks":8,"bytes_per_pair":262144,"memory":"user","ibcoll_us":20,)"
    R"("copy_fraction":0.25,"speedup":0.5,"speedup_low":0.25,"speedup_high":0.75,)"
    R"("speedup_of_rounds":0.5,)"
    R"("again":{"rounds":21,"speedup":0.625,"speedup_low":0.5,"speedup_high":0.75}})"
    "\n";
/// A cell of calls that each followed a barrier.
inline std::string after_barrier(std::string cell) {
  return cell.insert(1, R"("after_barrier":true,)");
}
inline constexpr const char* kVerdict = R"({"kind":"verdict","passes":false,"most_load":12.5})"
                                        "\n";
inline constexpr const char* kRest =
    R"({"summary":"geometric mean over sizes","collective":"bcast","speedup":9})"
    "\n\n"
    R"({"collective":"bcast","ranks":2,"bytes_per_pair":64,"memory":"user","ibcoll_us":1.0})"
    "\n";

inline Tables tables(const std::string& text) {
  Result<Tables> parsed = parse_tables(text);
  EXPECT_TRUE(parsed) << parsed.error().message;
  return parsed ? *parsed : Tables();
}

}  // namespace ibcoll::compare
