#pragma once
/// Multicasts of which sender and receivers know what must come, and jobs that make them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/api_job.h"

namespace ibcoll::testing {

inline constexpr size_t kKb = 1024;

/// A way that data go, and where the ranks are.
struct MulticastWay {
  const char* name;
  const char* layout;
  int ranks;
  const char* placement = nullptr;
  int loopback_seed = 0;
  const char* transport = "loopback";
  /// Each server of the layout is a machine of its own, as far as the control connections go. Ranks
  /// may be killed then.
  bool on_machines = false;

  bool is_over_verbs() const { return std::string_view(transport) == "verbs"; }
  /// Whether this machine has what it takes.
  bool is_usable() const;
  /// How long nothing may take. All ranks share a core on the test machine that has devices.
  unsigned limit_s() const { return is_over_verbs() ? 300 : 60; }
};
constexpr const char* kNoDevice = "no RDMA device here; ./run softroce brings some";

/// Settings of a job's ranks, taken back at the end.
class JobSettings {
 public:
  explicit JobSettings(std::map<std::string, std::string> settings);
  ~JobSettings();
  JobSettings(const JobSettings&) = delete;
  JobSettings& operator=(const JobSettings&) = delete;

 private:
  std::map<std::string, std::string> settings_;
};

/// Runs `body` on all ranks of a way; gives what they complain of. A rank that hangs ends by a
/// signal when the way's limit is over.
std::string run_multicasts(const MulticastWay& way, std::map<std::string, std::string> settings,
                           const std::function<void(const ApiRank&)>& body, int* status = nullptr);

/// A multicast, as all ranks know it.
struct Letter {
  int master = 0;
  std::vector<int> members;  ///< ascending
  size_t bytes = 0;
  uint64_t tag = 0;  ///< another one for each letter

  bool is_for(int rank) const { return std::binary_search(members.begin(), members.end(), rank); }
  std::vector<uint64_t> bitmap() const;
  std::string describe() const;
};

/// What is wrong with a message that is to be this letter; "" if nothing is.
std::string wrong_in(const ApiRank& rank, const ibcoll_message& message, const Letter& letter);

/// A letter on its way: the data, which are overwritten as soon as that is allowed.
class SentLetter {
 public:
  SentLetter(const ApiRank& rank, const Letter& letter);
  ~SentLetter();
  SentLetter(const SentLetter&) = delete;
  SentLetter& operator=(const SentLetter&) = delete;

  ibcoll_status start(ibcoll_multicast_options options = IBCOLL_MULTICAST_OPTIONS_INIT);
  /// Starts it as soon as it may be.
  bool start_sometime(const ibcoll_multicast_options& options = IBCOLL_MULTICAST_OPTIONS_INIT);
  /// Without a request.
  ibcoll_status send(ibcoll_multicast_options options);
  ibcoll_status wait();
  ibcoll_status test(int& done);
  std::vector<int> missing() const;
  const Letter& letter() const { return letter_; }
  ibcoll_request* request() const { return request_; }

 private:
  void spoil();

  const ApiRank& rank_;
  const Letter letter_;
  std::vector<std::byte> data_;
  ibcoll_request* request_ = nullptr;
};

/// Options of a multicast that receivers acknowledge.
ibcoll_multicast_options acknowledged();

/// Takes the next message, which is to be this letter. Gives whether it was.
bool receive(const ApiRank& rank, const Letter& letter);

/// A rank's, as they are now.
ibcoll_multicast_counters multicast_counters(const ApiRank& rank);

/// A barrier of all ranks. Gives whether it went well.
bool meet(const ApiRank& rank);

/// Complains unless a number is as it should be.
void expect_number(const ApiRank& rank, const char* what, uint64_t is, uint64_t should);

/// Complains unless that is the status, of the call alone, and the line has the text.
void expect(const ApiRank& rank, ibcoll_status status, ibcoll_status wanted,
            const std::string& text);

/// Complains of memory that messages take though nobody has them any more. What others lack of
/// messages that this rank passes on is its memory, too: a rank that has all of its own waits.
void expect_no_memory(const ApiRank& rank);

/// Makes progress until it is so.
template <class Condition>
bool progress_until(const ApiRank& rank, Condition is_so) {
  while (!is_so()) {
    if (!rank.good(ibcoll_progress(rank.context, nullptr), "progress")) return false;
  }
  return true;
}

/// A test on each of several ways.
class OnMulticastWays : public ::testing::TestWithParam<MulticastWay> {
 protected:
  void run(const std::function<void(const ApiRank&)>& body,
           const std::map<std::string, std::string>& settings = {});
  static int ranks() { return GetParam().ranks; }
  static std::vector<int> all();

  SharedFlags* flags_ = nullptr;
};

}  // namespace ibcoll::testing
