#include "engine/core/late_checks.h"

#include <algorithm>

namespace ibcoll {

void LateChecks::Late::after_exchange(void* late) {
  Late& self = *static_cast<Late*>(late);
  (void)self.check->compare();  // it ends the job where something is wrong
  self.completion.done = true;
}

Status LateChecks::add(std::unique_ptr<DataCheck> check, Group& group, uint32_t sequence) {
  const auto late = std::make_shared<Late>();
  late->check = std::move(check);
  late->group = &group;
  late->sequence = sequence;
  late->completion.then = Late::after_exchange;
  late->completion.owner = late.get();
  open_.push_back(late);
  return late->check->post(late->completion, sequence, 0, 0);
}

/// Of those that have numbers before `sequence`; null: none is open. Forgets what is through.
std::shared_ptr<LateChecks::Late> LateChecks::first_open(const Group& group, uint32_t sequence) {
  const auto is_before = [&](const std::shared_ptr<Late>& late) {
    return late->group == &group && static_cast<int32_t>(late->sequence - sequence) < 0;
  };
  std::erase_if(open_, [&](const std::shared_ptr<Late>& late) {
    return is_before(late) && late->completion.done;
  });
  const auto found = std::find_if(open_.begin(), open_.end(), is_before);
  return found == open_.end() ? nullptr : *found;
}

Result<bool> LateChecks::test(Group& group, uint32_t sequence) {
  const std::shared_ptr<Late> open = first_open(group, sequence);
  if (open == nullptr) return true;
  Result<bool> done = group.services().executor.test(open->completion);
  if (!done && !open->completion.done) return done;
  return first_open(group, sequence) == nullptr;
}

Status LateChecks::settle(Group& group, uint32_t sequence) {
  while (const std::shared_ptr<Late> open = first_open(group, sequence)) {
    Status waited = group.services().executor.wait(open->completion);
    // A group that is over says so itself.
    if (!waited && !open->completion.done) return waited;
  }
  return {};
}

Status LateChecks::settle_all(Executor& executor) {
  while (!open_.empty()) {
    const std::shared_ptr<Late> next = open_.back();
    Status waited = executor.wait(next->completion);
    if (!waited && !next->completion.done) return waited;
    std::erase(open_, next);
  }
  return {};
}

}  // namespace ibcoll
