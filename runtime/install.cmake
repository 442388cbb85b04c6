# What `cmake --install` lays down: the library, its headers, the machine files, and the two ways to
# find them (find_package and pkg-config). The command line installs itself in tools/.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/vmart)
install(TARGETS vmart EXPORT vmart-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libvmart NAMELINK_COMPONENT libvmart-dev
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/vma DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT vmart-targets NAMESPACE vmart:: DESTINATION ${package_dir})
configure_package_config_file(vmart-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/vmart-config.cmake
  INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_DATADIR)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/vmart-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/vmart-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/vmart-config-version.cmake
  DESTINATION ${package_dir})
install(DIRECTORY machine/machines/ DESTINATION ${CMAKE_INSTALL_DATADIR}/vmart/machines COMPONENT libvmart
  FILES_MATCHING PATTERN "*.json")
install(DIRECTORY python/vmart DESTINATION ${CMAKE_INSTALL_DATADIR}/vmart/python COMPONENT vmart-tools
  PATTERN __pycache__ EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT licence)

# Relative to the .pc file, so that the installed tree may be moved, or staged with DESTDIR.
file(RELATIVE_PATH VMART_PREFIX_FROM_PC /x/${CMAKE_INSTALL_LIBDIR}/pkgconfig /x)
# A program with the static library links what that was built with, the C++ runtime too, which a C
# compiler does not bring along; and it shows the public interface to policies in shared objects.
set(cxx_runtime ${CMAKE_CXX_IMPLICIT_LINK_LIBRARIES})
list(FILTER cxx_runtime INCLUDE REGEX "^(stdc\\+\\+|c\\+\\+|c\\+\\+abi|m)$")
list(REMOVE_DUPLICATES cxx_runtime)
list(TRANSFORM cxx_runtime PREPEND "-l")
list(JOIN cxx_runtime " " cxx_runtime)
set(static_libs
  "-Wl,--dynamic-list=\${exportslist} -lfmt ${cxx_runtime} -ldl -pthread")
install(FILES exports.list DESTINATION ${CMAKE_INSTALL_DATADIR}/vmart)
if(NOT BUILD_SHARED_LIBS)
  set(VMART_STATIC_LIBS ${static_libs})
endif()
get_property(VMART_PC_SIMCUDA GLOBAL PROPERTY VMART_PC_SIMCUDA)
configure_file(vmart.pc.in vmart.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/vmart.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# What a static build would install, for the test of it beside a shared one.
if(VMART_BUILD_TESTS AND BUILD_SHARED_LIBS AND NOT VMART_SANITIZE)
  set(VMART_STATIC_LIBS ${static_libs})
  configure_file(vmart.pc.in static/vmart.pc @ONLY)
  add_library(vmart_archive STATIC ${contents})
  set_target_properties(vmart_archive PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME vmart
    ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/static)
endif()
