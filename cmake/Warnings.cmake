# ibcoll_warnings: the flags every target of the project is compiled with.
add_library(ibcoll_warnings INTERFACE)
target_compile_options(ibcoll_warnings INTERFACE -Wall -Wextra -Werror)
if(IBCOLL_SANITIZE)
  target_compile_options(ibcoll_warnings INTERFACE -fsanitize=${IBCOLL_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(ibcoll_warnings INTERFACE -fsanitize=${IBCOLL_SANITIZE})
endif()
