# Verbs need libibverbs; connections by librdmacm are made where that is there, too.
pkg_check_modules(IBVERBS IMPORTED_TARGET libibverbs)
if(NOT IBVERBS_FOUND)
  set(absent ON)
  return()
endif()
target_link_libraries(${transport} PRIVATE PkgConfig::IBVERBS)
target_link_libraries(ibcoll_engine PUBLIC PkgConfig::IBVERBS)
pkg_check_modules(RDMACM IMPORTED_TARGET librdmacm)
if(RDMACM_FOUND)
  target_compile_definitions(${transport} PRIVATE IBCOLL_HAVE_RDMACM=1)
  target_link_libraries(${transport} PRIVATE PkgConfig::RDMACM)
  target_link_libraries(ibcoll_engine PRIVATE PkgConfig::RDMACM)
endif()
# These run only while a job starts.
list(APPEND small_sources verbs/connect.cc verbs/datagram_connect.cc verbs/device.cc verbs/gid_choice.cc verbs/lock_limit.cc verbs/network_kind.cc verbs/paths.cc verbs/port_agreement.cc
     verbs/port_choice.cc verbs/port_counters.cc verbs/port_defaults.cc verbs/port_history.cc verbs/rdmacm_connect.cc verbs/reach.cc verbs/route.cc
     verbs/setup.cc verbs/way_finder.cc)
