// A library that a fake plugin depends on and that the linker does not find.
int fakevendor;
