# What `cpack` makes of an installation: `-G DEB` the packages libvmart, libvmart-dev and vmart-tools, by the components
# of that name, and `-G TGZ` one folder that works wherever it lies. .ci/packages.sh makes both; and the target
# `uninstall` takes back what `cmake --install` laid down.
set(folder ${CMAKE_CURRENT_SOURCE_DIR}/packages)
configure_file(${folder}/uninstall.cmake.in uninstall.cmake @ONLY)
# What it reads beside CMake's list of files, which says nothing of the prefix: that folder was there before. And
# before 0.2.0 the shim was in a folder of libraries, where ldconfig takes it for the driver.
install(CODE "
  file(REMOVE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/libvmart-shim.so\")
  string(JOIN _ name prefix \${CMAKE_INSTALL_COMPONENT})
  file(WRITE \"${CMAKE_BINARY_DIR}/install_\${name}.txt\" \"\${CMAKE_INSTALL_PREFIX}\")" ALL_COMPONENTS)
add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -P ${CMAKE_CURRENT_BINARY_DIR}/uninstall.cmake)

# Of packages for Debian, where libraries are those of the system.
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  file(READ ${folder}/copyright copyright)
  foreach(bundled boost cli11 fmt gcc_runtime nvtx)
    file(READ ${folder}/licences/${bundled}.txt text)
    string(APPEND copyright "\n--- ${bundled}\n\n${text}")
  endforeach()
  file(CONFIGURE OUTPUT copyright CONTENT "${copyright}" @ONLY)
  foreach(package libvmart libvmart-dev vmart-tools)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/copyright DESTINATION share/doc/${package}
      COMPONENT ${package} EXCLUDE_FROM_ALL)
  endforeach()
endif()
install(FILES ${folder}/README.txt DESTINATION . COMPONENT tarball EXCLUDE_FROM_ALL)
install(DIRECTORY ${folder}/licences DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tarball EXCLUDE_FROM_ALL
  PATTERN nanobind.txt EXCLUDE PATTERN robin_map.txt EXCLUDE)

set(CPACK_PACKAGE_NAME vmart)
set(CPACK_PACKAGE_VENDOR "The vmart developers")
set(CPACK_PACKAGE_CONTACT "The vmart developers <vmart@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_FILE_NAME vmart-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_COMPONENTS_ALL libvmart libvmart-dev vmart-tools)
set(CPACK_PROJECT_CONFIG_FILE ${folder}/by_generator.cmake)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# The shim needs the driver's library by this name, which `vmart run` gives it (interpose/CMakeLists.txt).
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_CURRENT_BINARY_DIR}/interpose ${CMAKE_CURRENT_BINARY_DIR}
  ${CMAKE_CURRENT_BINARY_DIR}/simcuda)
# Packages of two distributions differ by their names, too.
set(release)
if(EXISTS /etc/os-release)
  file(STRINGS /etc/os-release release REGEX "^(ID|VERSION_ID)=")
  list(TRANSFORM release REPLACE "^[A-Z_]+=\"?([^\"]*)\"?$" "\\1")
  list(SORT release ORDER DESCENDING)
  list(JOIN release "" release)
endif()
set(CPACK_DEBIAN_PACKAGE_RELEASE 1~${release})
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)

set(CPACK_COMPONENT_LIBVMART_DESCRIPTION "${PROJECT_DESCRIPTION}: the library")
set(CPACK_DEBIAN_LIBVMART_PACKAGE_NAME libvmart)
set(CPACK_DEBIAN_LIBVMART_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_LIBVMART-DEV_DESCRIPTION "${PROJECT_DESCRIPTION}: headers, CMake, pkg-config")
set(CPACK_DEBIAN_LIBVMART-DEV_PACKAGE_NAME libvmart-dev)
set(CPACK_DEBIAN_LIBVMART-DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBVMART-DEV_PACKAGE_DEPENDS "libvmart (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(CPACK_COMPONENT_VMART-TOOLS_DESCRIPTION "${PROJECT_DESCRIPTION}: vmart and vmart-lab")
set(CPACK_DEBIAN_VMART-TOOLS_PACKAGE_NAME vmart-tools)
set(CPACK_DEBIAN_VMART-TOOLS_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_VMART-TOOLS_PACKAGE_DEPENDS "libvmart (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(CPACK_DEBIAN_VMART-TOOLS_PACKAGE_RECOMMENDS "python3 (>= 3.10)")
set(CPACK_DEBIAN_VMART-TOOLS_PACKAGE_CONTROL_EXTRA ${folder}/prerm)
include(CPack)
