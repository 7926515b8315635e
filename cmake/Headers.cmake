# Headers of other libraries, compiled once for many sources: reading them is a third of what a source of the library costs, and
# more of a test's.

# ibcoll_own_headers(TARGET HEADERS...): compiles headers for the sources of a target.
function(ibcoll_own_headers target)
  target_precompile_headers(${target} PRIVATE ${ARGN})
  ibcoll_keep_pch_line(${target})
endfunction()

# ibcoll_use_headers(TARGET OWNER): takes those of another target, which has the same flags, and no macro that this one lacks.
function(ibcoll_use_headers target owner)
  target_precompile_headers(${target} REUSE_FROM ${owner})
  ibcoll_keep_pch_line(${target})
endfunction()

# For ccache, which reads what the preprocessor leaves.
function(ibcoll_keep_pch_line target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endfunction()

# ibcoll_library_headers(TARGETS...): of libraries. Clang does without: it takes them for one level of optimization only, and so tells
# where a source includes less than it needs.
function(ibcoll_library_headers)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    return()
  endif()
  if(NOT TARGET ibcoll_headers)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/headers.cc CONTENT "")
    add_library(ibcoll_headers OBJECT ${PROJECT_BINARY_DIR}/headers.cc)
    target_link_libraries(ibcoll_headers PRIVATE ibcoll_warnings tl::expected fmt::fmt)
    ibcoll_own_headers(ibcoll_headers <algorithm> <array> <cstdint> <cstring> <functional> <map> <memory> <numeric> <optional> <span>
      <string> <string_view> <tuple> <unordered_map> <utility> <vector> <fmt/format.h> <tl/expected.hpp>)
  endif()
  foreach(target IN LISTS ARGN)
    ibcoll_use_headers(${target} ibcoll_headers)
  endforeach()
endfunction()
