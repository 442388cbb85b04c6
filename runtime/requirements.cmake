# What a build needs, refused by name where it is missing: which version, and the package that has it.

# vmart_require(NAME VERSION PACKAGES): `find_package` for a dependency. PACKAGES goes on after "apt install".
macro(vmart_require name version packages)
  find_package(${name} ${version} QUIET)
  if(NOT ${name}_FOUND)
    set(vmart_found "")
    if(${name}_CONSIDERED_VERSIONS)
      set(vmart_found "; found ${${name}_CONSIDERED_VERSIONS} in ${${name}_CONSIDERED_CONFIGS}")
    endif()
    message(FATAL_ERROR "vmart needs ${name} ${version} or newer${vmart_found}.\n"
      "Debian, Ubuntu: apt install ${packages}\n"
      "If it is installed elsewhere: -D${name}_ROOT=PREFIX")
  endif()
endmacro()

# The oldest compilers that tests build with. Older ones stop after minutes, at a line that is right.
function(vmart_require_compiler)
  set(oldest_GNU 11)
  set(oldest_Clang 16)
  set(name_GNU g++)
  set(name_Clang clang++)
  set(id ${CMAKE_CXX_COMPILER_ID})
  if(DEFINED oldest_${id} AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS oldest_${id})
    message(FATAL_ERROR "vmart needs ${name_${id}} ${oldest_${id}} or newer; ${CMAKE_CXX_COMPILER} is "
      "${CMAKE_CXX_COMPILER_VERSION}.\n"
      "Debian 12, Ubuntu 22.04 or newer: apt install g++, and configure with -DCMAKE_CXX_COMPILER=g++; "
      "from Debian 12, Ubuntu 24.04 on also: apt install clang-16 and -DCMAKE_CXX_COMPILER=clang++-16")
  endif()
endfunction()
