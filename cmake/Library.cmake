# libibcoll.so: the C interface (include/ibcoll) over the engine, with what others need to build
# against it: headers, a CMake package and a pkg-config file. It exports ibcoll_* and nothing else.
include(CMakePackageConfigHelpers)

# Here the objects of the C interface, which are in ibcoll_engine, too, pull in all the rest.
set(version_script ${PROJECT_SOURCE_DIR}/cmake/libibcoll.map)
add_library(ibcoll SHARED $<TARGET_OBJECTS:ibcoll_c_api>)
target_include_directories(ibcoll INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(ibcoll PRIVATE $<BUILD_INTERFACE:ibcoll_engine>)
target_link_options(ibcoll PRIVATE -Wl,--version-script=${version_script} -Wl,--no-undefined
                                   -Wl,--exclude-libs,ALL ${drop_unused})
if(IBCOLL_SANITIZE)
  # The sanitizers' own functions come from the executable.
  target_link_options(ibcoll PRIVATE -Wl,-z,undefs)
endif()
# Before 1.0 a minor version may change the interface.
set(so_version ${PROJECT_VERSION_MAJOR})
set(compatible SameMajorVersion)
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(so_version 0.${PROJECT_VERSION_MINOR})
  set(compatible SameMinorVersion)
endif()
set_target_properties(ibcoll PROPERTIES VERSION ${PROJECT_VERSION}
                                        SOVERSION ${so_version}
                                        LINK_DEPENDS ${version_script})
add_library(ibcoll::ibcoll ALIAS ibcoll)

# Components are what cmake/Packages.cmake makes packages of.
install(TARGETS ibcoll EXPORT ibcoll
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
install(DIRECTORY include/ibcoll DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
        FILES_MATCHING PATTERN "*.h*")

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ibcoll)
install(EXPORT ibcoll NAMESPACE ibcoll:: DESTINATION ${package_dir} FILE ibcollTargets.cmake
        COMPONENT development)
configure_package_config_file(cmake/ibcollConfig.cmake.in ${PROJECT_BINARY_DIR}/ibcollConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ibcollConfigVersion.cmake
                                 COMPATIBILITY ${compatible})
install(FILES ${PROJECT_BINARY_DIR}/ibcollConfig.cmake ${PROJECT_BINARY_DIR}/ibcollConfigVersion.cmake
        DESTINATION ${package_dir} COMPONENT development)

# Paths relative to the file itself: an installed tree may be moved.
file(RELATIVE_PATH pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/ibcoll.pc.in ibcoll.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ibcoll.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
