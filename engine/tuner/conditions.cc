#include "engine/tuner/conditions.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

namespace ibcoll {
namespace {

constexpr int kManyServersFrom = 32, kPlannableServersTo = 128, kThree = 3;
/// On one server with so few ranks nobody is held up for long by one that sends to all.
constexpr int kFewRanksTo = 8;
/// What goes together as one message must be so many blocks to pay for the copy.
constexpr uint64_t kSharers = 2;

bool shares_alike(const Shape& shape) {
  int smallest = shape.max_server_size();
  for (int server = 0; server < shape.servers(); ++server)
    smallest = std::min(smallest, shape.server_size(server));
  return smallest > 1 && 2 * smallest >= shape.max_server_size();
}

/// In the mean over the pairs of servers that exchange.
bool shares_messages(const Graph* graph) {
  if (graph == nullptr || graph->totals().pairs == 0) return false;
  return graph->totals().crossing >= kSharers * graph->totals().pairs;
}

bool shares_blocks(const Graph* graph) {
  return graph != nullptr && graph->totals().crossing >= kSharers * graph->totals().origins;
}

bool has_few_for(const CallFacts& of, int peers) {
  return of.connections != 0 && of.connections < static_cast<uint32_t>(peers);
}

struct Test {
  Condition condition;
  std::string_view name;
  bool (*holds)(const CallFacts& facts);
};

/// By bit.
constexpr std::array kTests = {
    Test{kOneServer, "one server", [](const CallFacts& of) { return of.shape.servers() == 1; }},
    Test{kEqualServers, "equal servers",
         [](const CallFacts& of) { return of.shape.equal_servers(); }},
    Test{kSeveralAServer, "several ranks a server",
         [](const CallFacts& of) { return of.shape.max_server_size() > 1; }},
    Test{kThreeAServer, "three ranks a server or more",
         [](const CallFacts& of) { return of.shape.max_server_size() >= kThree; }},
    Test{kSharesAlike, "several ranks a server, sharing alike",
         [](const CallFacts& of) { return shares_alike(of.shape); }},
    Test{kManyServers, "32 servers or more",
         [](const CallFacts& of) { return of.shape.servers() >= kManyServersFrom; }},
    Test{kPlannableServers, "128 servers or fewer",
         [](const CallFacts& of) { return of.shape.servers() <= kPlannableServersTo; }},
    Test{kTwoRanks, "two ranks", [](const CallFacts& of) { return of.shape.ranks() <= 2; }},
    Test{kFewRanks, "eight ranks or fewer",
         [](const CallFacts& of) { return of.shape.ranks() <= kFewRanksTo; }},
    Test{kPowerOfTwo, "a power of two of ranks",
         [](const CallFacts& of) {
           return std::has_single_bit(static_cast<unsigned>(of.shape.ranks()));
         }},
    Test{kOrdered, "ordered", [](const CallFacts& of) { return of.ordered; }},
    Test{kByLeaders, "by leaders alone", [](const CallFacts& of) { return of.by_leaders; }},
    // Algorithms that send fewer messages don't keep an order.
    Test{kCostsCores, "messages cost cores",
         [](const CallFacts& of) { return of.costs_cores && !of.ordered; }},
    Test{kSharedMessages, "several blocks a message",
         [](const CallFacts& of) { return shares_messages(of.graph); }},
    Test{kSharedBlocks, "several receivers a block",
         [](const CallFacts& of) { return shares_blocks(of.graph); }},
    Test{kFewForRanks, "fewer connections than ranks of other servers",
         [](const CallFacts& of) {
           return has_few_for(of, of.shape.ranks() - of.shape.max_server_size());
         }},
    Test{kFewForServers, "fewer connections than other servers",
         [](const CallFacts& of) { return has_few_for(of, of.shape.servers() - 1); }},
};

constexpr bool stand_by_bit() {
  for (size_t i = 0; i < kTests.size(); ++i)
    if (kTests[i].condition != uint32_t{1} << i) return false;
  return true;
}
static_assert(stand_by_bit());

}  // namespace

bool hold(Condition all, const CallFacts& facts) {
  for (uint32_t left = all; left != 0; left &= left - 1)
    if (!kTests[static_cast<size_t>(std::countr_zero(left))].holds(facts)) return false;
  return true;
}

std::string describe(Condition all) {
  std::string text;
  for (const Test& test : kTests) {
    if ((all & test.condition) == 0) continue;
    text += (text.empty() ? "" : ", ") + std::string(test.name);
  }
  return text.empty() ? "all others" : text;
}

}  // namespace ibcoll
