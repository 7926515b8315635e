#pragma once

#include <exception>

namespace ibcoll {

/// Inside `catch (...)`: whether what unwinds the stack is the end of its thread (pthread_exit,
/// cancellation) and no exception of C++. Such a handler has to rethrow it: the C library ends the
/// process otherwise.
///
/// `catch (abi::__forced_unwind&)` would do the same, but binds its reference to null, which the
/// undefined behaviour sanitizer reports.
inline bool thread_ends() noexcept { return std::current_exception() == nullptr; }

}  // namespace ibcoll
