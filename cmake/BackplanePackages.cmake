# Third-party packages, all in one place. Each is a Debian 12 package, but oneDNN 3, which is a wheel that
# `./dev setup` puts into the environment named by BACKPLANE_VENV.
include(GNUInstallDirs)
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(Protobuf REQUIRED)
if(BACKPLANE_TESTS)
  find_package(GTest REQUIRED)
endif()

set(BACKPLANE_VENV "${PROJECT_SOURCE_DIR}/.venv" CACHE PATH "Python environment with the oneDNN 3 wheel")

# A plugin we did not build, where the environment has it; its tests say so and skip where it has not.
file(GLOB BACKPLANE_XLA_CPU_PLUGIN "${BACKPLANE_VENV}/lib/python3*/site-packages/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so")
if(NOT BACKPLANE_XLA_CPU_PLUGIN)
  set(BACKPLANE_XLA_CPU_PLUGIN "pjrt_c_api_cpu_plugin.so")
endif()
