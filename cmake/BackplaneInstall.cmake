# The targets for dependents, and `cmake --install`: headers, libraries, CMake package, pkg-config files, the command
# with its manual pages and completions, plugins, templates, documents. docs/embedding.md describes their use.
#
# Install components: Development, Command, Plugins; all by default.

# backplane_offer(NAME LIBRARIES...)       defines Backplane::NAME, an interface over libraries
function(backplane_offer NAME)
  add_library(backplane_${NAME} INTERFACE)
  target_link_libraries(backplane_${NAME} INTERFACE ${ARGN})
  set_target_properties(backplane_${NAME} PROPERTIES EXPORT_NAME ${NAME})
  add_library(Backplane::${NAME} ALIAS backplane_${NAME})
endfunction()

set(BACKPLANE_SDK_LIBRARIES bp_mixed bp_executable bp_backend bp_collectives)
set(BACKPLANE_CORE_LIBRARIES bp_import bp_export bp_partition bp_passes bp_eval bp_hlo_proto bp_text bp_ir bp_relayout bp_types)
backplane_offer(pjrt_abi bp_api)
backplane_offer(host bp_host)
backplane_offer(core ${BACKPLANE_CORE_LIBRARIES})
backplane_offer(sdk ${BACKPLANE_SDK_LIBRARIES} backplane_core)
foreach(NAME host core sdk)
  target_compile_features(backplane_${NAME} INTERFACE cxx_std_20)
endforeach()

if(NOT BACKPLANE_INSTALL)
  return()
endif()

include(CMakePackageConfigHelpers)
set(BACKPLANE_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/Backplane)
set(BACKPLANE_PLUGIN_SUBDIR ${CMAKE_INSTALL_LIBDIR}/backplane/plugins)
set(BACKPLANE_SHARE ${CMAKE_INSTALL_DATADIR}/backplane)

# Computes the transitive closure of libraries: ours into OUT, those of other packages into OTHERS. A library precedes
# its dependencies.
function(backplane_closure OUT OTHERS)
  set(OURS "")
  set(FOREIGN "")
  set(WAITING ${ARGN})
  while(WAITING)
    list(POP_FRONT WAITING ITEM)
    if(ITEM MATCHES "^bp_" AND TARGET ${ITEM})
      list(REMOVE_ITEM OURS ${ITEM})  # moves behind the dependent that is being processed
      list(APPEND OURS ${ITEM})
      get_target_property(LINKED ${ITEM} INTERFACE_LINK_LIBRARIES)
      if(LINKED)
        list(APPEND WAITING ${LINKED})
      endif()
    elseif(ITEM)
      list(APPEND FOREIGN ${ITEM})
    endif()
  endwhile()
  list(REMOVE_DUPLICATES FOREIGN)
  set(${OUT} ${OURS} PARENT_SCOPE)
  set(${OTHERS} ${FOREIGN} PARENT_SCOPE)
endfunction()

# ---- libraries and their CMake package

backplane_closure(ABI ABI_OTHERS bp_api)
backplane_closure(HOST HOST_OTHERS bp_host)
backplane_closure(CORE CORE_OTHERS ${BACKPLANE_CORE_LIBRARIES})
backplane_closure(SDK SDK_OTHERS bp_shim ${BACKPLANE_SDK_LIBRARIES} ${BACKPLANE_CORE_LIBRARIES})
list(REMOVE_ITEM HOST ${ABI})
set(SDK_ONLY ${SDK})
list(REMOVE_ITEM SDK_ONLY ${ABI})

install(TARGETS ${ABI} backplane_pjrt_abi EXPORT BackplaneAbi)
install(TARGETS ${HOST} backplane_host EXPORT BackplaneHost
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT Development)
install(TARGETS ${SDK_ONLY} backplane_core backplane_sdk EXPORT BackplaneSdk
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT Development)
foreach(NAME Abi Host Sdk)
  install(EXPORT Backplane${NAME} FILE Backplane${NAME}Targets.cmake NAMESPACE Backplane::
    DESTINATION ${BACKPLANE_CMAKE_DIR} COMPONENT Development)
endforeach()
set(BACKPLANE_INSTALL_PLUGIN_DIR ${BACKPLANE_PLUGIN_SUBDIR})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/BackplaneConfig.cmake.in
  ${PROJECT_BINARY_DIR}/install/BackplaneConfig.cmake INSTALL_DESTINATION ${BACKPLANE_CMAKE_DIR}
  PATH_VARS BACKPLANE_INSTALL_PLUGIN_DIR CMAKE_INSTALL_BINDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/install/BackplaneConfigVersion.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/install/BackplaneConfig.cmake ${PROJECT_BINARY_DIR}/install/BackplaneConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/BackplanePlugin.cmake ${PROJECT_SOURCE_DIR}/cmake/plugin_exports.map
  DESTINATION ${BACKPLANE_CMAKE_DIR} COMPONENT Development)

# ---- headers, under include/backplane as they are included: "sdk/host/client.h"

foreach(ROOM api base core sdk/host sdk/backend)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${ROOM}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/backplane/${ROOM}
    COMPONENT Development
    FILES_MATCHING PATTERN "*.h" PATTERN "*.def" PATTERN "*_test.h" EXCLUDE PATTERN "testdata" EXCLUDE PATTERN "abi" EXCLUDE
    PATTERN "proto_values.h" EXCLUDE)  # includes generated classes that are not installed
endforeach()
# The source that every plugin compiles itself, and the header it includes.
install(FILES ${PROJECT_SOURCE_DIR}/sdk/shim/entries.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/backplane/sdk/shim
  COMPONENT Development)
install(FILES ${PROJECT_SOURCE_DIR}/sdk/shim/get_pjrt_api.cc DESTINATION ${BACKPLANE_SHARE}/sources COMPONENT Development)

# ---- pkg-config

# The pkg-config names of other packages' libraries.
function(backplane_requires OUT)
  set(NAMES "")
  foreach(ITEM ${ARGN})
    if(ITEM MATCHES "^absl::(.*)$")
      list(APPEND NAMES absl_${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(JOIN NAMES " " NAMES)
  set(${OUT} "${NAMES}" PARENT_SCOPE)
endfunction()

# backplane_pkg_config(FILE DESCRIPTION LIBRARIES OTHERS)
function(backplane_pkg_config FILE PC_DESCRIPTION LIBRARIES OTHERS)
  set(PC_NAME ${FILE})
  file(RELATIVE_PATH PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" PC_PREFIX "${PC_PREFIX}")
  backplane_requires(PC_REQUIRES ${OTHERS})
  set(PC_LIBS "")
  if(LIBRARIES)
    list(TRANSFORM LIBRARIES PREPEND "-l" OUTPUT_VARIABLE PC_LIBS)
    list(REMOVE_ITEM PC_LIBS -lbp_api)  # headers only
    list(JOIN PC_LIBS " " PC_LIBS)
    set(PC_LIBS "-L\${libdir} ${PC_LIBS} -pthread -ldl")
  endif()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/backplane.pc.in ${PROJECT_BINARY_DIR}/install/${FILE}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/install/${FILE}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT Development)
endfunction()
backplane_pkg_config(backplane-pjrt-abi "The PJRT C ABI: headers for C11 and C++17" "" "")
backplane_pkg_config(backplane-host "Opens any PJRT plugin: loader and C++ client" "${HOST}" "${HOST_OTHERS}")
backplane_pkg_config(backplane-core "Programs of machine learning: HLO, StableHLO, passes, an evaluator" "${CORE}" "${CORE_OTHERS}")

# ---- plugins, with their dependencies and manifests

if(BACKPLANE_PLUGINS)
  foreach(NAME cpu reference tpu_emulator hip)
    if(TARGET pjrt_backplane_${NAME})
      install(TARGETS pjrt_backplane_${NAME} LIBRARY DESTINATION ${BACKPLANE_PLUGIN_SUBDIR} COMPONENT Plugins)
      file(RELATIVE_PATH LIBRARY /${BACKPLANE_SHARE}/plugins.d /${BACKPLANE_PLUGIN_SUBDIR}/pjrt_backplane_${NAME}.so)
      file(WRITE ${PROJECT_BINARY_DIR}/install/plugins.d/${NAME}.json "{\"library_path\": \"${LIBRARY}\"}\n")
      install(FILES ${PROJECT_BINARY_DIR}/install/plugins.d/${NAME}.json DESTINATION ${BACKPLANE_SHARE}/plugins.d
        COMPONENT Plugins)
    endif()
  endforeach()
  if(TARGET hipemu)  # beside the plugin, which looks for it there
    install(TARGETS hipemu LIBRARY DESTINATION ${BACKPLANE_PLUGIN_SUBDIR} COMPONENT Plugins)
  endif()
  foreach(TRANSPORT gloo mpi)  # the same
    if(TARGET backplane_${TRANSPORT})
      install(TARGETS backplane_${TRANSPORT} LIBRARY DESTINATION ${BACKPLANE_PLUGIN_SUBDIR} COMPONENT Plugins)
    endif()
  endforeach()
  if(BP_DNNL_LIBRARY AND TARGET pjrt_backplane_cpu)  # found by sdk/engine/kernels
    file(REAL_PATH ${BP_DNNL_LIBRARY} ONEDNN)
    get_filename_component(ONEDNN_NAME ${BP_DNNL_LIBRARY} NAME)
    install(PROGRAMS ${ONEDNN} RENAME ${ONEDNN_NAME} DESTINATION ${BACKPLANE_PLUGIN_SUBDIR} COMPONENT Plugins)
  endif()
endif()

# ---- layers between a host and a plugin (sdk/layers)

if(TARGET pjrt_backplane_layers)
  install(TARGETS pjrt_backplane_layers LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/backplane/layers COMPONENT Plugins)
endif()

# ---- the command

if(TARGET backplane)
  install(TARGETS backplane RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT Command)
  # Where a program in bin/ that uses sdk/host/probe.h looks for it.
  install(TARGETS backplane-probe RUNTIME DESTINATION libexec/backplane COMPONENT Command)
  # The command finds its data relative to its own location: ../share/backplane.
  foreach(PART cases levels profiles)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/conformance/${PART} DESTINATION ${BACKPLANE_SHARE}/conformance COMPONENT Command)
  endforeach()
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/sdk/templates DESTINATION ${BACKPLANE_SHARE} COMPONENT Command
    PATTERN "__pycache__" EXCLUDE)
  set(PAGES ${PROJECT_BINARY_DIR}/install/pages)
  install(DIRECTORY ${PAGES}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT Command)
  install(FILES ${PAGES}/backplane.bash RENAME backplane DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    COMPONENT Command)
  install(FILES ${PAGES}/backplane.zsh RENAME _backplane DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions
    COMPONENT Command)
  install(FILES ${PAGES}/backplane.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT Command)
endif()

# ---- documents

foreach(NAME README.md ARCHITECTURE.md CHANGELOG.md LICENSE NOTICE)
  install(FILES ${PROJECT_SOURCE_DIR}/${NAME} DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT Development)
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs COMPONENT Development
  FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png")
