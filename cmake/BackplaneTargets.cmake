# One precompiled header for the libraries and one for the tests. All targets share them, so all must be compiled with
# the same code-generation flags (BackplaneFlags.cmake compiles executables with -fPIC for this reason); a target with
# different flags needs NO_PRECOMPILE.
option(BACKPLANE_PRECOMPILE "Parse the commonest headers once" ON)
set(BP_PRECOMPILED "")
if(BACKPLANE_TESTS)
  set(BP_PRECOMPILED _test)
endif()
if(BACKPLANE_PRECOMPILE)
  foreach(KIND "" ${BP_PRECOMPILED})
    add_library(bp_precompiled${KIND} OBJECT ${PROJECT_SOURCE_DIR}/cmake/precompiled.cc)
    target_include_directories(bp_precompiled${KIND} PRIVATE ${PROJECT_SOURCE_DIR})
    target_precompile_headers(bp_precompiled${KIND} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/precompiled${KIND}.h)
  endforeach()
  target_link_libraries(bp_precompiled PRIVATE absl::statusor absl::flat_hash_map absl::flat_hash_set absl::function_ref)
  if(BACKPLANE_TESTS)
    target_link_libraries(bp_precompiled_test PRIVATE
      absl::statusor absl::flat_hash_map absl::flat_hash_set absl::function_ref GTest::gtest GTest::gmock)
  endif()
endif()

# Compiles the sources of one library in batches, which halves the time of a clean build, because most of it is spent on
# templates in common headers. Names local to a file (anonymous namespaces, macros) must therefore be unique within the
# library; a library that cannot do so uses NO_BATCH. Off in the preset for developers, so that includes stay complete
# and a change recompiles one source, and within other projects.
option(BACKPLANE_BATCH "Compile the sources of a library in batches" ${PROJECT_IS_TOP_LEVEL})
set(BP_BATCH_SIZE 6)

# bp_library(NAME SRCS a.cc b.cc [DEPS x y] [NO_PRECOMPILE] [NO_BATCH])    a static library; the include root is the
# repository
function(bp_library NAME)
  cmake_parse_arguments(A "NO_PRECOMPILE;NO_BATCH" "" "SRCS;DEPS" ${ARGN})
  add_library(${NAME} STATIC ${A_SRCS})
  if(BACKPLANE_BATCH AND NOT A_NO_BATCH)
    set_target_properties(${NAME} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${BP_BATCH_SIZE})
  endif()
  if(BACKPLANE_PRECOMPILE AND NOT A_NO_PRECOMPILE)
    target_precompile_headers(${NAME} REUSE_FROM bp_precompiled)
  endif()
  target_include_directories(${NAME} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/backplane>)
  target_link_libraries(${NAME} PUBLIC ${A_DEPS})
endfunction()

set(BP_TEST_SECONDS 300)
if(BACKPLANE_SANITIZE)
  set(BP_TEST_SECONDS 1500)
endif()

# bp_test(NAME SRCS a_test.cc [DEPS x y])       a GoogleTest binary, registered with CTest under NAME
function(bp_test NAME)
  if(NOT BACKPLANE_TESTS)
    return()
  endif()
  cmake_parse_arguments(A "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${NAME} ${A_SRCS})
  if(BACKPLANE_PRECOMPILE)
    target_precompile_headers(${NAME} REUSE_FROM bp_precompiled_test)
  endif()
  target_include_directories(${NAME} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${NAME} PRIVATE BACKPLANE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_compile_options(${NAME} PRIVATE $<$<CONFIG:Release>:-O1>)  # tests are compiled more often than they are run
  target_link_libraries(${NAME} PRIVATE ${A_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  add_test(NAME ${NAME} COMMAND ${NAME})
  # `./dev sanitize` selects tests by the label. Under a sanitizer everything takes several times as long.
  set_tests_properties(${NAME} PROPERTIES TIMEOUT ${BP_TEST_SECONDS} LABELS cpp ENVIRONMENT BACKPLANE_VERIFY_PASSES=1)
endfunction()

# bp_add_plugin(NAME SRCS ... [DEPS ...])       backplane_add_plugin (BackplanePlugin.cmake) within this tree: builds
# pjrt_backplane_NAME.so in the build folder's plugins/. DEPS must include the shim.
include(BackplanePlugin)
function(bp_add_plugin NAME)
  backplane_add_plugin(pjrt_backplane_${NAME} ${ARGN} NO_SHIM)
  set_target_properties(pjrt_backplane_${NAME} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/plugins)
  target_include_directories(pjrt_backplane_${NAME} PRIVATE ${PROJECT_SOURCE_DIR})
endfunction()

# bp_order_functions(NAME FILE)   links the shared library NAME with the functions that FILE lists first, if the linker is
# lld (tools/function_order/link.py says why)
function(bp_order_functions NAME FILE)
  find_program(BP_PYTHON NAMES python python3 HINTS ${BACKPLANE_VENV}/bin)
  if(NOT BACKPLANE_HAS_lld OR BACKPLANE_SANITIZE OR NOT BP_PYTHON)
    return()
  endif()
  set(SCRIPT ${PROJECT_SOURCE_DIR}/tools/function_order/link.py)
  set_target_properties(${NAME} PROPERTIES CXX_LINKER_LAUNCHER "${BP_PYTHON};-B;${SCRIPT};${FILE}")
  set_property(TARGET ${NAME} APPEND PROPERTY LINK_DEPENDS ${SCRIPT} ${FILE})
endfunction()
