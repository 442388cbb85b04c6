#include "tools/doctor.hpp"
#include "tools/where.hpp"

#include <vma/error.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <exception>

namespace {

constexpr int failure = 1;
constexpr int wrong_usage = 2;

void add_driver(CLI::App& command, std::string& driver) {
  command.add_option("--driver", driver, "cuda, sim:NAME or sim:FILE.json; default: VMART_DRIVER");
}

int run(int argc, char** argv) {
  CLI::App app("Looks at memory that moves under a pointer that stays.", "vmart");
  app.set_version_flag("--version", "vmart " VMART_VERSION);
  app.require_subcommand(1);

  vma::DoctorOptions doctor_options;
  CLI::App& doctor =
      *app.add_subcommand("doctor", "says what this machine offers, and what is off");
  add_driver(doctor, doctor_options.driver);
  doctor
      .add_option("--copy-mib", doctor_options.copy_mib,
                  "size of the copies that are timed; 0: none")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();

  vma::WhereOptions where_options;
  CLI::App& where = *app.add_subcommand("where", "shows where an allocation's bytes lie");
  add_driver(where, where_options.driver);
  where.add_option("--mib", where_options.mib, "size of the allocation")
      ->check(CLI::Range(4, 65'536))
      ->capture_default_str();

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : wrong_usage;  // Help and version come this way too.
  }
  return doctor.parsed() ? vma::run_doctor(doctor_options) : vma::run_where(where_options);
}

}  // namespace

int main(int argc, char** argv) try {
  return run(argc, argv);
} catch (const std::exception& error) {
  fmt::print(stderr, "vmart: {}\n", error.what());
  return failure;
}
