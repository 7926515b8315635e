#pragma once
/// Functions that a library takes from others, replaced in that library alone.

#include <string_view>

namespace ibcoll::ucx {

/// From now on the library that `of_library` lies in calls `replacement` where it calls the
/// function of this name in another library. False where it does not, or where that is not known
/// how.
bool replace_import(const void* of_library, std::string_view name, void* replacement);

}  // namespace ibcoll::ucx
