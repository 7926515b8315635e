#pragma once
/// The memory behind the handles of the C interface.

#include <cstddef>
#include <cstdint>
#include <deque>

namespace ibcoll::c_api {

/// What every handle begins with.
template <class Object>
struct Handle {
  static constexpr uint64_t kLive = 0x6962636f6c6c6821;
  uint64_t state = 0;  ///< kLive as long as the user has it
  Object* next_free = nullptr;
};

/// True for a handle that the user may use. One that was freed is told from it, since its memory
/// stays a handle's; an address that was never one is not, unless it can't be one.
template <class Object>
bool is_live(const Object* handle) {
  return handle != nullptr && reinterpret_cast<uintptr_t>(handle) % alignof(Object) == 0 &&
         handle->state == Object::kLive;
}

/// Handles of one kind. Takes memory only when more are live than ever were, plus kResting.
template <class Object>
class HandlePool {
 public:
  Object& take() {
    if (free_ <= kResting) {
      all_.emplace_back();
      all_.back().state = Object::kLive;
      return all_.back();
    }
    Object& object = *first_free_;
    first_free_ = object.next_free;
    --free_;
    object.state = Object::kLive;
    return object;
  }
  /// The object must be as it was when it was taken. It rests before it is handed out again, so
  /// that a late use of the handle is not taken for one of the next.
  void give_back(Object& object) {
    object.state = 0;
    object.next_free = nullptr;
    (free_++ == 0 ? first_free_ : last_free_->next_free) = &object;
    last_free_ = &object;
  }
  template <class Visitor>
  void for_each_live(Visitor&& visit) {
    for (Object& object : all_) {
      if (object.state == Object::kLive) visit(object);
    }
  }

 private:
  static constexpr size_t kResting = 64;
  std::deque<Object> all_;  // never moves what it holds
  Object* first_free_ = nullptr;
  Object* last_free_ = nullptr;
  size_t free_ = 0;
};

}  // namespace ibcoll::c_api
