// PMI-1: lines of "cmd=NAME key=value ...", one answer to each.

#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <map>
#include <optional>

#include "engine/base/unique_fd.h"
#include "engine/base/units.h"
#include "engine/bootstrap/process_manager.h"

namespace ibcoll {
namespace {

/// A launcher's line is shorter.
constexpr size_t kLongestLine = 65536;

Result<int> number_of(const char* what, const std::string& text) {
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || value < 0 || value > 1 << 24)
    return fail(ErrorCode::kSystem, "{} is \"{}\": not a number", what, text);
  return static_cast<int>(value);
}

Result<int> number_from_environment(const char* name) {
  const char* text = std::getenv(name);
  return number_of(name, text != nullptr ? text : "");
}

class Pmi final : public ProcessManager {
 public:
  ~Pmi() override {
    if (started_) (void)ask("cmd=finalize", "finalize_ack");
  }
  std::string name() const override { return "PMI-1"; }
  Rank rank() const override { return rank_; }
  int size() const override { return size_; }

  Status start() {
    if (const char* port = std::getenv("PMI_PORT"); std::getenv("PMI_FD") == nullptr && port) {
      IBCOLL_TRY(connect_to(port));
      const char* id = std::getenv("PMI_ID");
      IBCOLL_TRY(ask(fmt::format("cmd=initack pmiid={}", id != nullptr ? id : "0"), "initack"));
      IBCOLL_ASSIGN(const Answer size, take("set"));
      IBCOLL_ASSIGN(size_, number_of("the launcher's size", value(size, "size")));
      IBCOLL_ASSIGN(const Answer rank, take("set"));
      IBCOLL_ASSIGN(rank_, number_of("the launcher's rank", value(rank, "rank")));
      IBCOLL_TRY(take("set"));  // debug=...
    } else {
      IBCOLL_ASSIGN(fd_, number_from_environment("PMI_FD"));
      IBCOLL_ASSIGN(rank_, number_from_environment("PMI_RANK"));
      IBCOLL_ASSIGN(size_, number_from_environment("PMI_SIZE"));
    }
    if (rank_ >= size_)
      return fail(ErrorCode::kSystem, "the launcher calls this rank {} of {}", rank_, size_);
    IBCOLL_TRY(ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init"));
    started_ = true;
    IBCOLL_ASSIGN(const Answer space, ask("cmd=get_my_kvsname", "my_kvsname"));
    space_ = value(space, "kvsname");
    return {};
  }

  Result<std::string> broadcast(const std::string& text) override {
    const std::string key = fmt::format(kRootKey, broadcasts_++);
    if (rank_ == 0) {
      IBCOLL_TRY(
          ask(fmt::format("cmd=put kvsname={} key={} value={}", space_, key, text), "put_result"));
    }
    IBCOLL_TRY(ask("cmd=barrier_in", "barrier_out"));
    if (rank_ == 0) return text;
    IBCOLL_ASSIGN(const Answer got,
                  ask(fmt::format("cmd=get kvsname={} key={}", space_, key), "get_result"));
    return value(got, "value");
  }

 private:
  using Answer = std::map<std::string, std::string, std::less<>>;

  static std::string value(const Answer& answer, std::string_view key) {
    const auto found = answer.find(key);
    return found == answer.end() ? "" : found->second;
  }

  Status connect_to(const std::string& place) {
    const size_t colon = place.rfind(':');
    if (colon == std::string::npos)
      return fail(ErrorCode::kSystem, "PMI_PORT is \"{}\": not HOST:PORT", place);
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int failed = getaddrinfo(place.substr(0, colon).c_str(), place.substr(colon + 1).c_str(),
                                   &hints, &found);
    if (failed != 0)
      return fail(ErrorCode::kSystem, "cannot find the launcher at {}: {}", place,
                  gai_strerror(failed));
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
    for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
      connection_.reset(socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
      if (connection_.valid() && connect(connection_.get(), at->ai_addr, at->ai_addrlen) == 0) {
        fd_ = connection_.get();
        return {};
      }
    }
    return fail_errno(fmt::format("cannot connect to the launcher at {}", place));
  }

  Result<Answer> ask(const std::string& question, std::string_view expected) {
    const std::string line = question + "\n";
    for (size_t done = 0; done < line.size();) {
      const ssize_t wrote = write_quietly(line.data() + done, line.size() - done);
      if (wrote < 0 && errno != EINTR) return fail_errno("cannot talk to the launcher (PMI)");
      if (wrote > 0) done += static_cast<size_t>(wrote);
    }
    return take(expected);
  }

  /// A launcher that has gone is an error and no signal that ends the program.
  ssize_t write_quietly(const void* data, size_t bytes) const {
    const ssize_t sent = send(fd_, data, bytes, MSG_NOSIGNAL);
    if (sent >= 0 || errno != ENOTSOCK) return sent;
    sigset_t pipe, before;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    const ssize_t wrote = write(fd_, data, bytes);
    const int error = errno;
    const timespec now{};
    if (wrote < 0 && error == EPIPE && sigismember(&before, SIGPIPE) == 0)
      sigtimedwait(&pipe, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    errno = error;
    return wrote;
  }

  /// The next line: "cmd=EXPECTED rc=0 ...".
  Result<Answer> take(std::string_view expected) {
    size_t end = 0;
    while ((end = unread_.find('\n')) == std::string::npos) {
      char piece[2048];
      const ssize_t got = read(fd_, piece, sizeof piece);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return fail_errno("cannot hear the launcher (PMI)");
      if (got == 0) return fail(ErrorCode::kPeerFailed, "the launcher has hung up (PMI)");
      unread_.append(piece, static_cast<size_t>(got));
      if (unread_.size() > kLongestLine)
        return fail(ErrorCode::kSystem, "the launcher says no PMI: a line of more than {} bytes",
                    kLongestLine);
    }
    const std::string line = unread_.substr(0, end);
    unread_.erase(0, end + 1);
    Answer answer;
    for (const std::string_view word : split(line, ' ')) {
      const size_t equals = word.find('=');
      if (equals != std::string_view::npos)
        answer.emplace(word.substr(0, equals), word.substr(equals + 1));
    }
    const std::string rc = value(answer, "rc");
    if (value(answer, "cmd") != expected || (!rc.empty() && rc != "0"))
      return fail(ErrorCode::kSystem, "the launcher answers \"{}\" where PMI has {}", line,
                  expected);
    return answer;
  }

  int fd_ = -1;
  UniqueFd connection_;
  bool started_ = false;
  Rank rank_ = 0;
  int size_ = 1;
  int broadcasts_ = 0;
  std::string space_, unread_;
};

}  // namespace

Result<std::unique_ptr<ProcessManager>> connect_pmi() {
  auto pmi = std::make_unique<Pmi>();
  IBCOLL_TRY(pmi->start());
  return std::unique_ptr<ProcessManager>(std::move(pmi));
}

}  // namespace ibcoll
