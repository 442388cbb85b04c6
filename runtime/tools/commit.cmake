# cmake -DSOURCE=DIR -DOUT=FILE [-DGIT=PROGRAM] -P commit.cmake: a source that names the commit of SOURCE, as git says or,
# where there is no repository of its own, as `git archive` wrote into .git_archival.txt. Null if nothing says it.
set(commit "")
if(GIT)
  # The folder inside the repository, which is empty for the whole: another repository may contain an unpacked archive.
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --show-prefix HEAD OUTPUT_VARIABLE said ERROR_QUIET)
  if(said MATCHES "^\n([0-9a-f]+)\n$")
    set(commit ${CMAKE_MATCH_1})
  endif()
endif()
if(NOT commit AND EXISTS ${SOURCE}/.git_archival.txt)
  file(STRINGS ${SOURCE}/.git_archival.txt node REGEX "^node: [0-9a-f]+$")
  string(REPLACE "node: " "" commit "${node}")
endif()
set(value "nullptr")
if(commit)
  set(value "\"${commit}\"")
endif()
file(WRITE ${OUT} "#include \"tools/command_line/build_information.hpp\"\n\nconst char* const vma::built_commit = ${value};\n")
