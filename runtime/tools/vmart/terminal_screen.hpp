#pragma once

#include <termios.h>

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace vma {

// A picture of lines in a terminal that is drawn again and again, and the keys that are pressed.

struct Style {
  static constexpr const char *plain = "", *title = "\x1b[1m", *cool = "\x1b[32m",
                              *warm = "\x1b[33m", *hot = "\x1b[31m", *moving = "\x1b[36m";
};

struct Line {
  std::string text;
  const char* style = Style::plain;
};

struct Screen {
  std::size_t width = std::numeric_limits<std::size_t>::max(), height = width;

  /// The size of the terminal, or 80 x 24 if it is unknown.
  static Screen of_terminal();
};

/// Cuts the lines so that they fit.
void fit(std::vector<Line>& lines, const Screen& screen);
/// Whether standard output is a terminal with colours, and NO_COLOR is unset.
bool has_colour();
/// Overwrites the previous picture, to avoid flicker. The last line has no newline, which would
/// scroll.
void show(const std::vector<Line>& lines, const std::string& foot, bool colour);

/// Ctrl-C arrives as this byte, because SingleKeys turns signals off.
constexpr char interrupt_key = 3;

/// Reads keys one by one and without echo while it exists. Also turns off signals from the
/// keyboard, so that no key can end the program before the terminal is restored.
class SingleKeys {
 public:
  SingleKeys();
  ~SingleKeys();
  SingleKeys(const SingleKeys&) = delete;
  SingleKeys& operator=(const SingleKeys&) = delete;

  /// Waits for a key until the next picture is due, or until the terminal's size changes. Returns
  /// none if no key was pressed.
  std::optional<char> pressed(int pause_ms) const;

 private:
  termios before_{};
  bool changed_;
};

}  // namespace vma
