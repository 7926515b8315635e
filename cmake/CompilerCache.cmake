# Compiles through ccache where it is installed. Clones of the same commit share what is compiled: nothing that the compiler writes
# tells where they lie. A debugger wants to know. They have a namespace of their own, so that nothing comes from a cache that was
# filled without ccache.sh.
find_program(CCACHE ccache)
if(CCACHE)
  set(launcher ${CCACHE})
  if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE STREQUAL Debug)
    set(launcher env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_NAMESPACE=ibcoll
        CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
        ${CMAKE_CURRENT_LIST_DIR}/ccache.sh ${CCACHE})
    add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.)
  endif()
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
endif()
