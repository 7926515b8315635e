# ibcoll_warnings: the flags every target of the project is compiled with.
set(warning_flags -Wall -Wextra)
if(IBCOLL_WERROR)
  list(APPEND warning_flags -Werror)
endif()
add_library(ibcoll_warnings INTERFACE)
target_compile_options(ibcoll_warnings INTERFACE ${warning_flags})
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # Wrong about std::string's operator+ and insert (GCC bug 105651).
  target_compile_options(ibcoll_warnings INTERFACE -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND (CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13 OR IBCOLL_SANITIZE))
  # Before 13 wrong about what is moved out of a Result or std::optional (GCC bug 105562): without a sanitizer
  # only inside the standard library's headers, where studies/task_graph/graph_formats.cc compares strings it
  # has read. With one wrong, in all versions, about what the instrumentation leaves of std::regex.
  target_compile_options(ibcoll_warnings INTERFACE -Wno-maybe-uninitialized)
endif()
if(IBCOLL_SANITIZE)
  # A first finding ends the program: that is half as much code behind every check.
  target_compile_options(ibcoll_warnings INTERFACE -fsanitize=${IBCOLL_SANITIZE} -fno-sanitize-recover=all
                                                   -fno-omit-frame-pointer)
  target_link_options(ibcoll_warnings INTERFACE -fsanitize=${IBCOLL_SANITIZE})
  if(IBCOLL_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # Fences only order stores against wake-ups (sharing/bell.h); no data is handed over by them.
    target_compile_options(ibcoll_warnings INTERFACE -Wno-tsan)
  endif()
endif()

# Sources that run briefly and are slow to compile with a sanitizer (tests, tools): not optimised there.
function(ibcoll_compile_fast target)
  if(IBCOLL_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# The same for tests, which run once for each time that they are compiled: optimised nowhere, with lines only where a sanitizer
# or a debugger prints them.
function(ibcoll_compile_test target)
  target_compile_options(${target} PRIVATE -O0)
  if(NOT IBCOLL_SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL Debug)
    target_compile_options(${target} PRIVATE -g0)
  endif()
  # Units of tests are long: g++ would spend a seventh of its time collecting garbage. Without, it takes 1.6 GB for the longest.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND NOT IBCOLL_SANITIZE)
    target_compile_options(${target} PRIVATE --param=ggc-min-expand=300 --param=ggc-min-heapsize=1048576)
  endif()
endfunction()

# For what is linked as often as tests are: gold takes half as long.
find_program(IBCOLL_GOLD ld.gold)
mark_as_advanced(IBCOLL_GOLD)
function(ibcoll_link_test target)
  if(IBCOLL_GOLD AND NOT IBCOLL_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
    target_link_options(${target} PRIVATE -fuse-ld=gold)
  endif()
endfunction()
