// A library that has only one of the functions of rocBLAS.
#include <cstdint>

extern "C" __attribute__((visibility("default"))) int32_t rocblas_create_handle(void** handle) {
  *handle = nullptr;
  return 6;
}
