/// A shared object that is no policy.

int unrelated() {
  return 0;
}
