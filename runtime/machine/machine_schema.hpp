#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// One key of a machine file. `docs/reference/machine_files.md` has a row for each.
struct MachineKey {
  enum class Form {
    text,
    flag,
    integer,
    number,
    integers,  ///< A list of integers.
    numbers,
    rows,     ///< A list of lists of numbers.
    flags,    ///< A list of lists of flags.
    object,   ///< Its members have their own rows.
    objects,  ///< A list of objects.
    table,    ///< An object with the members of "costs.*".
    costs,    ///< An object, or the name of the machine with the same costs.
    sources,  ///< See `MachineSources`.
  };

  std::string path;  ///< "gpus[].memory_mib"; members of each cost table are "costs.*.us".
  Form form = Form::text;
  bool required = false;
  double least = 0, most = 0;  ///< Bounds of a number, or of each number in a list.
  std::string unit;
};

/// Every key that a machine file may have, objects before their members.
const std::vector<MachineKey>& machine_keys();

/// Null if the key is unknown.
const MachineKey* find_machine_key(std::string_view path);

/// Maximum number of GPUs and host nodes of a machine.
constexpr int machine_gpus_max = 128;
constexpr int machine_host_nodes_max = 64;

}  // namespace vma
