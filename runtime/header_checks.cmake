# Each header compiles alone: the public ones with nothing but the library, internal ones with their
# folder's include directories. An internal one that has a source of its own comes first there
# (tests/tidy sees to it) and so compiles alone as often as that.
add_custom_target(vmart_header_checks ALL)

# check_headers(TARGET LIBRARY HEADER...): TARGET compiles each alone.
function(check_headers target library)
  set(sources)
  foreach(header IN LISTS ARGN)
    string(MAKE_C_IDENTIFIER ${header} name)
    set(source ${CMAKE_CURRENT_BINARY_DIR}/header_checks/${name}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n")
    list(APPEND sources ${source})
  endforeach()
  add_library(${target} OBJECT EXCLUDE_FROM_ALL ${sources})
  target_compile_options(${target} PRIVATE -O0 -g0)
  target_link_libraries(${target} PRIVATE ${library})
  add_dependencies(vmart_header_checks ${target})
endfunction()

# Asio's users have Boost, and those of memory resources CCCL; nobody else needs them.
file(GLOB public_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/include
  ${PROJECT_SOURCE_DIR}/include/vma/*.hpp ${PROJECT_SOURCE_DIR}/include/vma/*.h)
list(REMOVE_ITEM public_headers vma/asio.hpp vma/memory_resource.hpp vma/thrust_allocator.hpp)
check_headers(vmart_public_headers vmart ${public_headers})

get_property(layers_apart GLOBAL PROPERTY VMART_LAYERS_APART)
foreach(target IN LISTS layers layers_apart)
  get_target_property(folder ${target} VMART_FOLDER)
  file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${folder}/*.hpp)
  set(alone)
  foreach(header IN LISTS headers)
    string(REGEX REPLACE "hpp$" "cpp" own_source ${header})
    if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${own_source})
      list(APPEND alone ${header})
    endif()
  endforeach()
  if(alone)
    check_headers(${target}_headers ${target} ${alone})
    target_include_directories(${target}_headers PRIVATE $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
  endif()
endforeach()
