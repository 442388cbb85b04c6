#include "lab/bounds/program/linear_program.hpp"

#include "base/whole_file.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

namespace vma {
namespace {

constexpr std::size_t flush_bytes = 64 * 1024;
constexpr std::string_view always_one = "constant";

class LpFile {
 public:
  explicit LpFile(const std::string& path)
      : path_(path),
        file_(path, {.call = "write_lp",
                     .kind = ErrorKind::invalid_argument,
                     .mode = 0644,
                     .write_kind = ErrorKind::driver_failure}) {}

  template <typename... Args>
  void put(fmt::format_string<Args...> text, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), text, std::forward<Args>(args)...);
    if (text_.size() >= flush_bytes) flush();
  }
  void put_term(double factor, std::string_view name) {
    put(" {} {} {}\n", factor < 0 ? '-' : '+', std::abs(factor), name);
  }
  void finish() {
    flush();
    file_.become(path_);
  }

 private:
  void flush() {
    file_.write({text_.data(), text_.size()});
    text_.clear();
  }

  std::string path_;
  WholeFile file_;
  fmt::memory_buffer text_;
};

void put_rows(LpFile& file, const LinearProgram& program) {
  file.put("Subject To\n one:\n");
  file.put_term(1, always_one);
  file.put(" = 1\n");
  for (const LinearProgram::Row& row : program.rows) {
    file.put(" {}:\n", row.name);
    for (const LinearProgram::Term& term : row.terms)
      file.put_term(term.factor, program.columns[term.column].name);
    file.put(" {} {}\n", row.equal ? "=" : "<=", row.limit);
  }
}

}  // namespace

void write_lp(const LinearProgram& program, const std::string& path, const std::string& about,
              const std::string& unit) {
  LpFile file(path);
  file.put("\\ {}\nMinimize\n {}:\n", about, unit);
  file.put_term(program.constant, always_one);
  for (const LinearProgram::Column& column : program.columns)
    if (column.cost != 0) file.put_term(column.cost, column.name);
  put_rows(file, program);
  if (!program.columns.empty()) file.put("Binaries\n");
  for (const LinearProgram::Column& column : program.columns) file.put(" {}\n", column.name);
  file.put("End\n");
  file.finish();
}

}  // namespace vma
