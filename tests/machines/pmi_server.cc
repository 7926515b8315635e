#include "tests/machines/pmi_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>

#include "engine/base/units.h"

namespace ibcoll::machines {
namespace {

/// Which ranks share a machine, as MPICH wants to be told: (first machine, machines, ranks each).
std::string process_mapping(const Shape& shape) {
  std::string text = "(vector";
  for (int machine = 0; machine < shape.servers(); ++machine)
    text += fmt::format(",({},1,{})", machine, shape.server_size(machine));
  return text + ")";
}

}  // namespace

PmiServer::PmiServer(const Shape& shape) : ranks_(static_cast<size_t>(shape.ranks())) {
  values_["PMI_process_mapping"] = process_mapping(shape);
}

Result<UniqueFd> PmiServer::connect(Rank rank) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return fail_errno("can't connect a rank");
  ranks_[static_cast<size_t>(rank)].fd.reset(ends[0]);
  return UniqueFd(ends[1]);
}

void PmiServer::serve(Rank rank) {
  Connection& connection = ranks_[static_cast<size_t>(rank)];
  char piece[4096];
  const ssize_t got = recv(connection.fd.get(), piece, sizeof piece, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    connection.fd.reset();
    return;
  }
  connection.unread.append(piece, static_cast<size_t>(got));
  for (size_t end; (end = connection.unread.find('\n')) != std::string::npos;) {
    const std::string line = connection.unread.substr(0, end);
    connection.unread.erase(0, end + 1);
    answer(connection, line);
  }
}

void PmiServer::answer(Connection& connection, const std::string& line) {
  std::map<std::string, std::string, std::less<>> asked;
  for (const std::string_view word : split(line, ' ')) {
    const size_t equals = word.find('=');
    if (equals != std::string_view::npos)
      asked.emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  const std::string what = asked["cmd"];
  if (what == "init") {
    say(connection, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
  } else if (what == "get_maxes") {
    say(connection, "cmd=maxes kvsname_max=64 keylen_max=64 vallen_max=1024 rc=0");
  } else if (what == "get_appnum") {
    say(connection, "cmd=appnum appnum=0 rc=0");
  } else if (what == "get_universe_size") {
    say(connection, fmt::format("cmd=universe_size size={} rc=0", ranks_.size()));
  } else if (what == "get_my_kvsname") {
    say(connection, "cmd=my_kvsname kvsname=machines rc=0");
  } else if (what == "put") {
    values_[asked["key"]] = asked["value"];
    say(connection, "cmd=put_result rc=0 msg=success");
  } else if (what == "get") {
    const auto found = values_.find(asked["key"]);
    say(connection, found != values_.end()
                        ? fmt::format("cmd=get_result rc=0 msg=success value={}", found->second)
                        : "cmd=get_result rc=-1 msg=key_not_found value=unknown");
  } else if (what == "barrier_in") {
    connection.in_barrier = true;
    if (!std::all_of(ranks_.begin(), ranks_.end(), [](auto& one) { return one.in_barrier; }))
      return;
    for (Connection& one : ranks_) {
      one.in_barrier = false;
      say(one, "cmd=barrier_out rc=0");
    }
  } else if (what == "finalize") {
    say(connection, "cmd=finalize_ack rc=0");
  } else if (what == "abort") {
    aborted_ = std::max(1, std::atoi(asked["exitcode"].c_str()));
  } else {
    say(connection, fmt::format("cmd={}_result rc=-1 msg=not_served", what));
  }
}

void PmiServer::say(Connection& connection, const std::string& line) {
  const std::string text = line + "\n";
  // A rank that has gone, or that does not listen to a few short lines, gets none.
  (void)send(connection.fd.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace ibcoll::machines
