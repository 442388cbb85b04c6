/* The same as consumer.cpp, in C: the header is C99 and the functions keep what it says. */

#include <vma/vmart.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void require(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "c_consumer: does not hold: %s (%s)\n", what, vmart_last_error());
  exit(1);
}

static void count_calls(vmart_move_event* event, void* user) {
  ++*(int*)user;
  event->done = 1;
}

int main(void) {
  static unsigned char written[1 << 20], read[sizeof written];
  const vmart_place first = {VMART_GPU, 0}, second = {VMART_GPU, 1};
  vmart_place at = {VMART_HOST, 9};
  void* pointer = NULL;
  vmart_move_hook* hook = NULL;
  int foreign = 0, calls = 0;
  size_t i;
  for (i = 0; i < sizeof written; ++i) written[i] = (unsigned char)(i * 7);
  require(strlen(vmart_version()) > 0, "there is a version");
  require(strcmp(vmart_last_error(), "") == 0, "no error yet");
  require(vmart_alloc(sizeof written, first, &pointer) == VMART_OK, "memory is there");
  require(vmart_write(pointer, written, sizeof written) == VMART_OK, "it is written");
  require(vmart_move_hook_create(pointer, count_calls, &calls, &hook) == VMART_OK, "it has a hook");
  require(vmart_migrate(pointer, 0, 0, second, NULL) == VMART_OK, "it moves");
  require(calls == 2, "the hook was called before and after");
  vmart_move_hook_release(hook);
  require(vmart_where((char*)pointer + 100, &at) == VMART_OK, "it lies somewhere");
  require(at.kind == VMART_GPU && at.ordinal == 1, "it lies on the second GPU");
  require(vmart_read(pointer, read, sizeof read) == VMART_OK, "it is read");
  require(memcmp(read, written, sizeof read) == 0, "the bytes are the same");
  require(vmart_free(pointer) == VMART_OK, "it is freed");
  require(vmart_migrate(&foreign, 0, 0, second, NULL) == VMART_UNKNOWN_POINTER,
          "others are refused");
  require(strlen(vmart_last_error()) > 0, "with a reason");
  puts("c_consumer: the installed library works");
  return 0;
}
