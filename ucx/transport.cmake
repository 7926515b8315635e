# UCX, where it is there. Its headers alone: the library is loaded when the transport is first opened, see library.cc.
pkg_check_modules(UCX ucx)
if(NOT UCX_FOUND)
  message(STATUS "No UCX (libucx-dev): without the transport 'ucx', which joins machines that have no InfiniBand")
  set(absent ON)
  return()
endif()
target_include_directories(${transport} SYSTEM PRIVATE ${UCX_INCLUDE_DIRS})
# These run only while a job starts.
list(APPEND small_sources ucx/gate.cc ucx/library.cc ucx/network_kind.cc ucx/packet_filter.cc ucx/setup.cc)
