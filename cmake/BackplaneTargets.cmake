# bp_library(NAME SRCS a.cc b.cc [DEPS x y])    a static library of one room, include root = the repository
function(bp_library NAME)
  cmake_parse_arguments(A "" "" "SRCS;DEPS" ${ARGN})
  add_library(${NAME} STATIC ${A_SRCS})
  target_include_directories(${NAME} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${NAME} PUBLIC ${A_DEPS})
endfunction()

# bp_test(NAME SRCS a_test.cc [DEPS x y])       one GoogleTest binary, registered with CTest under NAME
function(bp_test NAME)
  cmake_parse_arguments(A "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${NAME} ${A_SRCS})
  target_include_directories(${NAME} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${NAME} PRIVATE BACKPLANE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${NAME} PRIVATE ${A_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  add_test(NAME ${NAME} COMMAND ${NAME})
  set_tests_properties(${NAME} PROPERTIES TIMEOUT 300)
endfunction()

# bp_add_plugin(NAME SRCS ... [DEPS ...])       a PJRT plugin: shared library pjrt_backplane_NAME.so that exports
# GetPjrtApi and nothing else, whatever the archives it links made visible.
function(bp_add_plugin NAME)
  cmake_parse_arguments(A "" "" "SRCS;DEPS" ${ARGN})
  add_library(pjrt_backplane_${NAME} MODULE ${A_SRCS})
  set_target_properties(pjrt_backplane_${NAME} PROPERTIES
    PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/plugins
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/plugin_exports.map)
  target_include_directories(pjrt_backplane_${NAME} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(pjrt_backplane_${NAME} PRIVATE ${A_DEPS})
  target_link_options(pjrt_backplane_${NAME} PRIVATE
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/plugin_exports.map
    -Wl,--exclude-libs,ALL -Wl,-Bsymbolic -Wl,-z,now -Wl,--gc-sections)
  if(NOT BACKPLANE_SANITIZE)
    target_link_options(pjrt_backplane_${NAME} PRIVATE -Wl,--no-undefined)
  endif()
endfunction()
