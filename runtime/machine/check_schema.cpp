#include "machine/check_schema.hpp"

#include "machine/json_text.hpp"
#include "machine/machine_schema.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <fmt/format.h>

#include <cmath>

namespace vma {
namespace {

namespace json = boost::json;
using Form = MachineKey::Form;

bool holds_numbers(Form form) {
  return form == Form::integer || form == Form::number || form == Form::integers ||
         form == Form::numbers || form == Form::rows;
}

/// Visits the keys of a file and compares them with those that are allowed.
class FormCheck {
 public:
  SchemaCheck run(const json::value& json) {
    if (const json::object* file = json.if_object()) {
      members(*file, "", "");
    } else {
      refuse("", "is not an object");
    }
    return std::move(form_);
  }

 private:
  void refuse(const std::string& path, std::string reason) {
    form_.problems.push_back({path, std::move(reason)});
  }

  /// `pattern` is the path of the object in `machine_keys`.
  void members(const json::object& object, const std::string& path, const std::string& pattern) {
    for (const json::key_value_pair& member : object) {
      const std::string place = JsonText::join(path, member.key());
      const MachineKey* key = find_machine_key(JsonText::join(pattern, member.key()));
      if (key == nullptr) {
        refuse(place, "is not a known key of this object");
      } else {
        form_.paths.insert(place);
        value(member.value(), place, *key);
      }
    }
    for (const MachineKey& key : machine_keys()) {
      const std::size_t cut = key.path.rfind('.');
      const std::string around = cut == std::string::npos ? "" : key.path.substr(0, cut);
      const std::string name = cut == std::string::npos ? key.path : key.path.substr(cut + 1);
      if (key.required && around == pattern && !object.contains(name)) {
        refuse(JsonText::join(path, name), "is missing");
      }
    }
  }

  void value(const json::value& value, const std::string& path, const MachineKey& key) {
    if (holds_numbers(key.form)) form_.numbers.push_back(path);
    switch (key.form) {
      case Form::text: return text(value, path);
      case Form::flag:
        if (!value.is_bool()) refuse(path, "must be true or false");
        return;
      case Form::integer:
      case Form::number: return number(value, path, key);
      case Form::integers:
      case Form::numbers: return numbers(value, path, key);
      case Form::rows:
      case Form::flags: return rows(value, path, key);
      case Form::object: return object(value, path, key.path);
      case Form::objects: return objects(value, path, key.path + "[]");
      case Form::table: return object(value, path, "costs.*");
      case Form::costs:
        if (value.is_string()) return text(value, path);
        return object(value, path, key.path);
      case Form::sources: return;  // `MachineSources` checks them.
    }
  }

  void text(const json::value& value, const std::string& path) {
    const json::string* text = value.if_string();
    if (text == nullptr) return refuse(path, "must be a string");
    if (text->empty()) refuse(path, "is empty");
  }

  void number(const json::value& value, const std::string& path, const MachineKey& key) {
    const bool whole = key.form == Form::integer || key.form == Form::integers;
    const double number = value.is_number() ? value.to_number<double>() : NAN;
    if (std::isnan(number))
      return refuse(path, whole ? "is not a whole number" : "is not a number");
    if (whole && (number != std::floor(number) || std::abs(number) > 1e15)) {
      return refuse(path, "is not a whole number");
    }
    if (number >= key.least && number <= key.most) return;
    refuse(path, fmt::format("{} is not between {} and {}", number, key.least, key.most));
  }

  void numbers(const json::value& value, const std::string& path, const MachineKey& key) {
    const json::array* list = value.if_array();
    if (list == nullptr || list->empty()) return refuse(path, "is not a list of numbers");
    for (std::size_t i = 0; i < list->size(); ++i) number((*list)[i], JsonText::join(path, i), key);
  }

  void rows(const json::value& value, const std::string& path, const MachineKey& key) {
    const json::array* list = value.if_array();
    if (list == nullptr) return refuse(path, "is not a list of rows");
    for (std::size_t i = 0; i < list->size(); ++i) {
      const std::string row = JsonText::join(path, i);
      if (key.form == Form::rows) {
        numbers((*list)[i], row, key);
      } else {
        flags((*list)[i], row);
      }
    }
  }

  void flags(const json::value& value, const std::string& path) {
    const json::array* list = value.if_array();
    if (list == nullptr) return refuse(path, "is not a row of flags");
    for (const json::value& flag : *list) {
      if (!flag.is_bool()) return refuse(path, "contains something other than true or false");
    }
  }

  void object(const json::value& value, const std::string& path, const std::string& pattern) {
    const json::object* object = value.if_object();
    if (object == nullptr) return refuse(path, "is not an object");
    members(*object, path, pattern);
  }

  void objects(const json::value& value, const std::string& path, const std::string& pattern) {
    const json::array* list = value.if_array();
    if (list == nullptr) return refuse(path, "is not a list");
    for (std::size_t i = 0; i < list->size(); ++i) {
      const std::string place = JsonText::join(path, i);
      form_.paths.insert(place);
      object((*list)[i], place, pattern);
    }
  }

  SchemaCheck form_;
};

}  // namespace

SchemaCheck check_schema(const json::value& json) {
  return FormCheck().run(json);
}

}  // namespace vma
