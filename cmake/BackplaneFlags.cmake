# Compiler settings for every target of the project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2")  # asserts stay enabled: they are cheap, and wrong code must not continue
set(CMAKE_C_FLAGS_RELEASE "-O2")

add_compile_options(-fPIC)  # executables too, because they share the libraries' precompiled header
add_link_options(-Wl,--build-id)  # stored executables name the build that made them (sdk/backend/build_id.h)
add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options(-Wthread-safety -Werror=thread-safety)  # the annotations of base/mutex.h
  add_compile_options(-Wno-deprecated-declarations)  # std::stable_sort of GCC 12 uses a function that its own header deprecates
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Inline and template statics would otherwise become process-wide unique symbols, shared between plugins.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fno-gnu-unique>)
endif()

set(BACKPLANE_SANITIZE "" CACHE STRING "Sanitizers for every target, as -fsanitize takes them (address,undefined; thread), or empty")
if(BACKPLANE_SANITIZE)
  # A finding of UBSan fails the test. The check of dynamic types needs RTTI, which LLVM is built without. At -O2
  # compiling the checks takes twice as long.
  set(CMAKE_CXX_FLAGS_RELEASE "-O1")
  set(CMAKE_C_FLAGS_RELEASE "-O1")
  add_compile_options(-fsanitize=${BACKPLANE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_compile_definitions(BACKPLANE_SANITIZED)
  add_link_options(-fsanitize=${BACKPLANE_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND NOT BACKPLANE_LIBFUZZER)
    # One runtime for a host and the plugins that it opens, and for a Python process that opens them.
    add_link_options(-shared-libsan)
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libclang_rt.asan-${CMAKE_HOST_SYSTEM_PROCESSOR}.so
      OUTPUT_VARIABLE RUNTIME OUTPUT_STRIP_TRAILING_WHITESPACE)
    get_filename_component(RUNTIME_DIR "${RUNTIME}" DIRECTORY)
    list(APPEND CMAKE_BUILD_RPATH ${RUNTIME_DIR})
  endif()
  if(BACKPLANE_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize=vptr)
    add_link_options(-fno-sanitize=vptr)
  endif()
  if(BACKPLANE_SANITIZE MATCHES "undefined" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # Functions that LLVM compiled at run time have no signature for the check of indirect calls. Enums of the ABI may
    # have values of newer headers: without -fstrict-enums compilers treat them as integers.
    add_compile_options(-fno-sanitize=function,enum)
  endif()
endif()
option(BACKPLANE_LIBFUZZER "A libFuzzer program for each reader of bytes from outside; wants clang" OFF)
if(BACKPLANE_LIBFUZZER)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND PROJECT_IS_TOP_LEVEL)
  # Without these ccache does not cache sources with a precompiled header.
  set(CCACHE_PROGRAM ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
# The fastest linker: two hundred programs are linked, many of them with LLVM.
if(PROJECT_IS_TOP_LEVEL)
  include(CheckLinkerFlag)
  foreach(LINKER lld gold)
    check_linker_flag(CXX -fuse-ld=${LINKER} BACKPLANE_HAS_${LINKER})
    if(BACKPLANE_HAS_${LINKER})
      add_link_options(-fuse-ld=${LINKER})
      break()
    endif()
  endforeach()
endif()
# One link at a time: linking LLVM statically takes memory and both cores.
if(PROJECT_IS_TOP_LEVEL)
  set_property(GLOBAL PROPERTY JOB_POOLS link=1)
  set(CMAKE_JOB_POOL_LINK link)
endif()
