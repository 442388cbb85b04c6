#pragma once

#include "machine/machine_description.hpp"

#include <boost/json/value.hpp>

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace vma {

/// One key of a machine file: how it is checked, and where its value is in a description, for
/// reading and writing. `docs/reference/machine_files.md` has a row for each.
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
    sources,  ///< Checked by `MachineDocument`.
  };
  /// Bounds of a number, or of each number in a list. Whole numbers in "MiB" are bytes in a
  /// description.
  struct Bounds {
    double least = 0, most = 0;
    std::string_view unit;
  };
  using Member = std::variant<
      std::monostate, std::string MachineDescription::*, bool MachineDescription::*,
      std::uint64_t MachineDescription::*, std::uint64_t HostNodeDescription::*,
      std::string GpuDescription::*, std::uint64_t GpuDescription::*, int GpuDescription::*,
      double GpuDescription::*, double PeerLink::*, bool PeerLink::*, double HostLink::*,
      bool HostLink::*, std::vector<double> CostTable::*, std::vector<int> CostTable::*,
      std::vector<std::vector<double>> CostTable::*, double CostTable::*,
      CostTable CostParameters::*, double CostParameters::*, std::uint64_t CostParameters::*>;

  std::string_view path;  ///< "gpus[].memory_mib"; members of each cost table are "costs.*.us".
  Form form = Form::text;
  bool required = false;
  Bounds bounds;
  Member member;  ///< None if the value is more than a member of the object around it.

  /// "memory_mib" of "gpus[]".
  std::string_view name() const { return path.substr(path.rfind('.') + 1); }
  std::string_view object() const {
    return path.substr(0, path.size() - name().size() - (name() == path ? 0 : 1));
  }
};

/// Every key that a machine file may have, objects before their members.
std::span<const MachineKey> machine_keys();

/// Calls `body(key, value)` for the keys of an object such as "gpus[]", with the values that are
/// members of `description`.
template <typename Description, typename Body>
void for_each_value(std::string_view object, Description& description, Body&& body) {
  for (const MachineKey& key : machine_keys()) {
    if (key.object() != object) continue;
    const auto visit = [&](auto member) {
      if constexpr (requires { description.*member; }) body(key, description.*member);
    };
    std::visit(visit, key.member);
  }
}

/// Copies the cost with this name. Requires: it exists.
void copy_cost(std::string_view name, const CostParameters& from, CostParameters& to);

/// What is wrong with a machine file: "gpus[0].memory_mib: is missing".
using MachineProblems = std::vector<std::string>;

/// The contents of a machine file by path, and its formal problems: unknown keys, missing keys,
/// values of the wrong type or out of bounds.
struct SchemaCheck {
  std::set<std::string> paths;  ///< Of every key, and every object in a list.
  /// Keys whose value is a number or a list of numbers, in order.
  std::vector<std::string> numbers;
  MachineProblems problems;
};
SchemaCheck check_schema(const boost::json::value& json);

}  // namespace vma
