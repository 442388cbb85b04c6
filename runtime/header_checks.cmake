# Each header compiles alone. CMake does it for the public ones (VERIFY_INTERFACE_HEADER_SETS). An
# internal one that has a source of its own comes first there (tests/tidy sees to it) and so compiles
# alone as often as that; here it is done for the others, with their folder's include directories only.
add_custom_target(vmart_header_checks ALL DEPENDS vmart_verify_interface_header_sets)

get_property(layers_apart GLOBAL PROPERTY VMART_LAYERS_APART)
foreach(target IN LISTS layers layers_apart)
  get_target_property(folder ${target} VMART_FOLDER)
  file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${folder}/*.hpp)
  set(sources)
  foreach(header IN LISTS headers)
    string(REGEX REPLACE "hpp$" "cpp" own_source ${header})
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${own_source})
      continue()
    endif()
    string(MAKE_C_IDENTIFIER ${header} name)
    set(source ${CMAKE_CURRENT_BINARY_DIR}/header_checks/${name}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n")
    list(APPEND sources ${source})
  endforeach()
  if(sources)
    add_library(${target}_headers OBJECT EXCLUDE_FROM_ALL ${sources})
    target_compile_options(${target}_headers PRIVATE -O0 -g0)
    target_include_directories(${target}_headers PRIVATE
      $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
    target_link_libraries(${target}_headers PRIVATE ${target})
    add_dependencies(vmart_header_checks ${target}_headers)
  endif()
endforeach()
