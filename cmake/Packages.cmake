# `cpack -G DEB` in the build folder makes Debian packages of it: the library, what programs are built
# with, and the tools with their manual pages and the library for MPI programs.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ibcoll)
set(CPACK_PACKAGE_VENDOR "the ibcoll authors")
set(CPACK_PACKAGE_CONTACT "the ibcoll authors")
set(CPACK_DEBIAN_PACKAGE_RELEASE "")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL library development)
if(IBCOLL_BUILD_TOOLS)
  list(APPEND CPACK_COMPONENTS_ALL tools)
endif()
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libibcoll${so_version})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
# Programs that are packaged find by this what to depend on, and the loader finds the library.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "Moves data between servers with one-sided RDMA writes and inside a server through shared memory, and
decides when each block moves, so that no link is contended. This is the library that programs run with.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libibcoll-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libibcoll${so_version} (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "The headers for C and C++, and what CMake and pkg-config need to build programs with ibcoll.")

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME ibcoll-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "Tools that measure collectives, show and prove their schedules, predict and plan for networks, place
ranks and schedule task graphs; and a library that has MPI programs use ibcoll as they are, or records their communication.")

# Where Debian looks for licences.
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME}
          RENAME copyright COMPONENT ${component})
endforeach()
include(CPack)
