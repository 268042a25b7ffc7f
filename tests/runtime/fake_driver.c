// A CUDA driver that launches nothing: it notes what it was asked, for tests of how launches are packed.
#include <string.h>

typedef struct {
  unsigned grid[3], block[3], shared;
  void *kernel, *stream;
  unsigned long long words[8];
  int launches, cooperative, contexts, allowed_shared, next_status;
  char entry[64];
} Record;

Record record;

int cuInit(unsigned flags) { return flags ? 1 : 0; }
int cuGetErrorName(int status, const char **name) {
  *name = status == 201 ? "CUDA_ERROR_INVALID_CONTEXT" : status == 1 ? "CUDA_ERROR_INVALID_VALUE" : "CUDA_ERROR_OTHER";
  return 0;
}
int cuGetErrorString(int status, const char **text) {
  *text = status == 1 ? "invalid argument" : "other";
  return 0;
}
int cuLibraryLoadData(void **library, const void *image, void *a, void *b, unsigned n, void *c, void *d, unsigned m) {
  if (memcmp(image, "cubin", 5) || n || m) return 200;
  *library = (void *)0x10;
  return 0;
}
int cuLibraryGetKernel(void **kernel, void *library, const char *entry) {
  if (library != (void *)0x10) return 400;
  strncpy(record.entry, entry, sizeof record.entry - 1);
  *kernel = (void *)0x7766554433221100;
  return 0;
}
int cuKernelSetAttribute(int attribute, int value, void *kernel, int device) {
  if (attribute != 8 || kernel != (void *)0x7766554433221100 || device) return 1;
  if (value > 232448) return 1;
  record.allowed_shared = value;
  return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  *value = attribute == 97 ? 232448 : 0;
  return device;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
  *context = (void *)0x30;
  return device;
}
int cuCtxSetCurrent(void *context) {
  record.contexts += context == (void *)0x30;
  return 0;
}
int cuLaunchKernel(void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **params, void **extra) {
  int status = record.next_status;
  record.next_status = 0;
  if (status) return status;
  unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
  memcpy(record.grid, grid, sizeof grid);
  memcpy(record.block, block, sizeof block);
  record.shared = shared;
  record.kernel = kernel;
  record.stream = stream;
  for (int i = 0; i < 5; i++) record.words[i] = *(unsigned long long *)params[i];
  record.launches++;
  return extra ? 1 : 0;
}
int cuLaunchCooperativeKernel(void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                              unsigned bz, unsigned shared, void *stream, void **params) {
  int status = cuLaunchKernel(kernel, gx, gy, gz, bx, by, bz, shared, stream, params, 0);
  record.cooperative += !status;
  return status;
}
