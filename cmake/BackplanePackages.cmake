# All third-party packages. Each is a Debian 12 package, except oneDNN 3, a wheel that `./dev setup` installs into the
# environment named by BACKPLANE_VENV.
include(GNUInstallDirs)
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
if(BACKPLANE_TESTS)
  find_package(GTest REQUIRED)
endif()

set(BACKPLANE_VENV "${PROJECT_SOURCE_DIR}/.venv" CACHE PATH "Python environment with the oneDNN 3 wheel")

# A plugin of another vendor, if the environment has it; otherwise its tests are skipped.
file(GLOB BACKPLANE_XLA_CPU_PLUGIN "${BACKPLANE_VENV}/lib/python3*/site-packages/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so")
if(NOT BACKPLANE_XLA_CPU_PLUGIN)
  set(BACKPLANE_XLA_CPU_PLUGIN "pjrt_c_api_cpu_plugin.so")
endif()

# Call after find_package(LLVM). Links its compression libraries statically: the functions of shared ones would be bound to
# whatever the host has loaded under those names (TensorFlow exports its own zlib and zstd).
function(backplane_compress_by_archives)
  foreach(TARGET ZLIB::ZLIB zstd::libzstd_shared)
    if(NOT TARGET ${TARGET})
      continue()
    endif()
    string(REGEX REPLACE ".*libzstd.*" "libzstd.a" ARCHIVE "${TARGET}")
    string(REPLACE "ZLIB::ZLIB" "libz.a" ARCHIVE "${ARCHIVE}")
    find_library(BACKPLANE_${ARCHIVE} NAMES ${ARCHIVE} REQUIRED)
    foreach(CONFIG "" _RELEASE _NOCONFIG)
      set_property(TARGET ${TARGET} PROPERTY IMPORTED_LOCATION${CONFIG} ${BACKPLANE_${ARCHIVE}})
    endforeach()
  endforeach()
endfunction()
