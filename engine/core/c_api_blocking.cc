#include "engine/core/c_api_blocking.h"

#include "engine/core/c_api.h"

namespace ibcoll::c_api {
namespace {

/// None means the same as this name.
const char* text_of(const char* name) { return name == nullptr ? "auto" : name; }

}  // namespace

void KnownOptions::take(const ibcoll_options& options) {
  options_ = options;
  std::strncpy(algorithm_.data(), text_of(options.algorithm), algorithm_.size());
  std::strncpy(pacing_.data(), text_of(options.pacing), pacing_.size());
}

bool KnownOptions::are(const ibcoll_options& options) const {
  return options.struct_size == sizeof options && options.pieces == options_.pieces &&
         options.send_bytes == options_.send_bytes && options.recv_bytes == options_.recv_bytes &&
         options.ordered == options_.ordered && options.reserved == options_.reserved &&
         options.deadline_us == options_.deadline_us &&
         std::strcmp(text_of(options.algorithm), algorithm_.data()) == 0 &&
         std::strcmp(text_of(options.pacing), pacing_.data()) == 0;
}

bool Description::is_with_options(const ibcoll_call& call) const {
  ibcoll_call same = call;
  same.options = call_.options;
  return std::memcmp(&same, &call_, sizeof same) == 0 && options_.are(*call.options);
}

/// Whether what its pointers lead to is the same. They have the same values.
bool BlockingCalls::Known::are_lists_of(const ibcoll_call& other) const {
  const bool same_graph =
      other.graph == nullptr || (is_live(other.graph) && other.graph->graph == graph);
  return same_graph && counts.are_of(other);
}

/// The latest call that means the same, prepared; null: there is none.
BlockingCalls::Known* BlockingCalls::find(const ibcoll_call& call) {
  for (size_t i = 0; i < kKnown; ++i) {
    Known& known = known_[(latest_ + i) % kKnown];
    if (known.description.is(call) && known.call->is_prepared() &&
        (!known.has_lists || known.are_lists_of(call)))
      return &known;
  }
  return nullptr;
}

Status BlockingCalls::carry_out(ibcoll_context& context, const std::shared_ptr<Group>& group,
                                const ibcoll_call& call) {
  if (Known* const known = find(call)) {
    latest_ = static_cast<size_t>(known - known_.data());
    if (Status started = known->call->start(/*waits=*/true); !started) return started;
    return known->call->wait();
  }
  if (!Description::says_all_but_lists(call)) {
    if (other_ == nullptr) other_ = std::make_unique<Call>(*group);
    Status done = c_api::carry_out(context, *other_, call);
    other_->release();
    return done;
  }
  Known& known = place_for(call);
  if (known.call == nullptr) known.call = std::make_unique<Call>(*group);
  known.call->release();
  known.description.take_with_lists(call);
  known.has_lists = Description::has_lists(call);
  known.graph = is_live(call.graph) ? call.graph->graph : nullptr;
  Status done =
      c_api::carry_out(context, *known.call, call, known.has_lists ? &known.counts : nullptr);
  known.call->rest();
  return done;
}

/// One that has no call to keep, or a call of which only the lists differ, or else the oldest call.
BlockingCalls::Known& BlockingCalls::place_for(const ibcoll_call& call) {
  for (Known& known : known_) {
    if (known.call == nullptr || !known.call->is_prepared() || known.description.is(call))
      return known;
  }
  latest_ = (latest_ + kKnown - 1) % kKnown;
  return known_[latest_];
}

}  // namespace ibcoll::c_api
