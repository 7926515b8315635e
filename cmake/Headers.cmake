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

# For ccache, which compiles with precompiled headers only where the preprocessor would keep their line.
function(ibcoll_keep_pch_line target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endfunction()

# What most sources of the library include.
set(library_headers <algorithm> <array> <cstdint> <cstring> <functional> <map> <memory> <numeric> <optional> <span> <string> <string_view>
  <tuple> <unordered_map> <utility> <vector> <fmt/format.h> <tl/expected.hpp>)

# ibcoll_headers_target(NAME): compiles them, and nothing else.
function(ibcoll_headers_target name)
  if(NOT TARGET ${name})
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${name}.cc CONTENT "")
    add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/${name}.cc)
    target_link_libraries(${name} PRIVATE ibcoll_warnings tl::expected fmt::fmt)
    ibcoll_own_headers(${name} ${library_headers})
  endif()
endfunction()

# ibcoll_library_headers(TARGETS...): takes them for the library's parts and what is like them. Clang does without, and so tells
# where a source includes less than it needs.
function(ibcoll_library_headers)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    return()
  endif()
  ibcoll_headers_target(ibcoll_headers)
  foreach(target IN LISTS ARGN)
    ibcoll_use_headers(${target} ibcoll_headers)
  endforeach()
endfunction()

# ibcoll_core_headers(OWNER TARGETS...): takes them for what makes calls, with the engine's own headers; they belong to the first.
function(ibcoll_core_headers owner)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    return()
  endif()
  ibcoll_own_headers(${owner} ${library_headers} "\"engine/core/context.h\"")
  foreach(target IN LISTS ARGN)
    ibcoll_use_headers(${target} ${owner})
  endforeach()
endfunction()

# ibcoll_as_library(TARGET): compiles the sources of an executable as a library's are: compiled headers are for one kind.
function(ibcoll_as_library target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
endfunction()

# ibcoll_makes_calls(TARGET SOURCES...): takes the headers of ibcoll_core_headers() for an executable of which one of these sources
# includes some of them.
function(ibcoll_makes_calls target)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU OR IBCOLL_SANITIZE)
    return()
  endif()
  foreach(source IN LISTS ARGN)
    file(STRINGS ${source} found LIMIT_COUNT 1 REGEX "#include \"(engine/core|studies/measure)/")
    if(found)
      ibcoll_as_library(${target})
      ibcoll_use_headers(${target} ibcoll_core)
      return()
    endif()
  endforeach()
endfunction()

# ibcoll_small_sources(TARGET SOURCES...): compiles those of these sources that are the target's for size. With them come the
# headers for size: g++ compiles a source as it has compiled the headers, whatever else it is told. CMake leaves sources with
# options of their own out of what it compiles together, so that is done here.
function(ibcoll_small_sources target)
  get_target_property(small ${target} SOURCES)
  set(others ${small})
  list(REMOVE_ITEM others ${ARGN})
  list(REMOVE_ITEM small ${others})
  list(LENGTH small count)
  if(count EQUAL 0)
    return()
  endif()
  get_target_property(unity ${target} UNITY_BUILD)
  if(unity)
    set(units "")
    set(most ${CMAKE_UNITY_BUILD_BATCH_SIZE})
    if(most EQUAL 0)
      set(most ${count})
    endif()
    math(EXPR last "${count} - 1")
    foreach(begin RANGE 0 ${last} ${most})
      list(SUBLIST small ${begin} ${most} includes)
      list(TRANSFORM includes REPLACE "(.+)" "#include \"\\1\"\n")
      list(JOIN includes "" includes)
      set(unit ${PROJECT_BINARY_DIR}/${target}_small_${begin}.cc)
      file(CONFIGURE OUTPUT ${unit} CONTENT "${includes}")
      list(APPEND units ${unit})
    endforeach()
    set_property(TARGET ${target} PROPERTY SOURCES ${others} ${units})
    set(small ${units})
  endif()
  if(IBCOLL_SANITIZE)
    # Compiled like all others, but together with the same ones as elsewhere.
    set_source_files_properties(${small} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    return()
  endif()
  set(optimized "$<CONFIG:Release,RelWithDebInfo>")
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_GENERATOR STREQUAL Ninja AND NOT IBCOLL_COVERAGE)
    ibcoll_headers_target(ibcoll_small_headers)
    target_compile_options(ibcoll_small_headers PRIVATE "$<${optimized}:-Os>")
    set(header ${PROJECT_BINARY_DIR}/CMakeFiles/ibcoll_small_headers.dir/cmake_pch.hxx)
    set_source_files_properties(${small} PROPERTIES SKIP_PRECOMPILE_HEADERS ON OBJECT_DEPENDS ${header}.gch
      COMPILE_OPTIONS "$<${optimized}:-Os>;-Winvalid-pch;-include;${header}")
  else()
    set_source_files_properties(${small} PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "$<${optimized}:-Os>")
  endif()
endfunction()
