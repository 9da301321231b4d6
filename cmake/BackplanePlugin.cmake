# backplane_add_plugin(NAME SRCS a.cc ... [DEPS x ...] [NO_SHIM])       builds a PJRT plugin: the shared library NAME.so
# that exports only GetPjrtApi, whatever the linked archives make visible. The sources define backplane::CreateBackend
# (sdk/backend/backend.h); the C ABI over it is linked in unless NO_SHIM is given. Used in Backplane's own tree and,
# after find_package(Backplane), outside of it.
function(backplane_add_plugin NAME)
  cmake_parse_arguments(A "NO_SHIM" "" "SRCS;DEPS" ${ARGN})
  if(NOT A_SRCS)
    message(FATAL_ERROR "backplane_add_plugin(${NAME}): no SRCS")
  endif()
  add_library(${NAME} MODULE ${A_SRCS})
  if(A_NO_SHIM)
    set(SHIM "")
  elseif(TARGET bp_shim)
    set(SHIM bp_shim Backplane::sdk)
  else()
    set(SHIM Backplane::bp_shim Backplane::sdk)
  endif()
  set(EXPORTS ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/plugin_exports.map)
  set_target_properties(${NAME} PROPERTIES
    PREFIX "" CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden C_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    INSTALL_RPATH "$ORIGIN" LINK_DEPENDS ${EXPORTS})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Inline and template statics would otherwise become process-wide unique symbols, shared between plugins.
    target_compile_options(${NAME} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-gnu-unique>)
  endif()
  target_link_libraries(${NAME} PRIVATE ${A_DEPS} ${SHIM})
  target_link_options(${NAME} PRIVATE
    -Wl,--version-script=${EXPORTS} -Wl,--exclude-libs,ALL -Wl,-Bsymbolic -Wl,-z,now -Wl,--gc-sections)
  if(NOT BACKPLANE_SANITIZE)
    target_link_options(${NAME} PRIVATE -Wl,--no-undefined)
  endif()
endfunction()
