// The library of layers. To the host it is a plugin; it opens the plugin that the configuration names.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "sdk/host/loader.h"
#include "sdk/host/status.h"
#include "sdk/layers/config.h"
#include "sdk/layers/layer.h"
#include "sdk/layers/refusal.h"

namespace backplane::layers {
namespace {

Stack* g_stack = nullptr;  // lives until the process ends
pid_t g_process = 0;
int g_wake = -1;  // the writing end of the pipe for the flush signal

std::string OwnPath() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&OwnPath), &info) == 0 || info.dli_fname == nullptr) return "";
  return info.dli_fname;
}

bool SameFile(const std::string& a, const std::string& b) {
  struct stat sa, sb;
  return stat(a.c_str(), &sa) == 0 && stat(b.c_str(), &sb) == 0 && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

absl::StatusOr<std::unique_ptr<Stack>> Open() {
  const std::string library = OwnPath();
  BP_ASSIGN_OR_RETURN(Config config, ReadConfig(library, [](const char* name) -> const char* { return getenv(name); }));
  if (SameFile(config.plugin, library)) {
    return absl::InvalidArgumentError(absl::StrCat(config.plugin, ": is this library of layers itself"));
  }
  BP_ASSIGN_OR_RETURN(const host::Plugin* plugin, host::Plugin::Load(config.plugin));
  BP_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Layer>> layers, MakeLayers(config));
  return Stack::Create(&plugin->api(), plugin->name(), std::move(layers));
}

// A forked child must not write to the files of its parent.
void FlushUnlessForked() {
  if (getpid() == g_process) g_stack->Flush();
}
void EndUnlessForked() {
  if (getpid() == g_process) g_stack->End();
}

void OnSignal(int) {
  const int saved = errno;
  const char byte = 0;
  // If the pipe is full, a flush is already pending.
  if (write(g_wake, &byte, 1) < 0) errno = saved;
  errno = saved;
}

// A signal handler must not write files, so it wakes a thread that does.
void FlushOnSignal() {
  int ends[2];
  if (pipe(ends) != 0) return;
  g_wake = ends[1];
  pthread_t thread;
  auto loop = [](void* arg) -> void* {
    const int from = static_cast<int>(reinterpret_cast<intptr_t>(arg));
    char byte;
    while (read(from, &byte, 1) == 1) FlushUnlessForked();
    return nullptr;
  };
  if (pthread_create(&thread, nullptr, loop, reinterpret_cast<void*>(static_cast<intptr_t>(ends[0]))) != 0) return;
  pthread_detach(thread);
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR2, &action, nullptr);
}

const PJRT_Api* OpenOnce() {
  static std::recursive_mutex mutex;
  std::lock_guard<std::recursive_mutex> lock(mutex);
  static bool opening = false;
  static const PJRT_Api* table = nullptr;
  if (table != nullptr) return table;
  if (opening) {
    // Copies of the library whose manifests name each other as plugins.
    return MakeRefusalTable("BACKPLANE_LAYERS: the plugins of these layers lead back to the same library");
  }
  opening = true;
  absl::StatusOr<std::unique_ptr<Stack>> stack = Open();
  if (!stack.ok()) {
    table = MakeRefusalTable(absl::StrCat("BACKPLANE_LAYERS: ", stack.status().message()));
    return table;
  }
  g_process = getpid();
  g_stack = stack->release();
  table = g_stack->api();
  atexit(EndUnlessForked);
  if (const char* set = getenv("BACKPLANE_LAYERS_FLUSH_SIGNAL"); set != nullptr && absl::string_view(set) == "1") {
    FlushOnSignal();
  }
  return table;
}

}  // namespace
}  // namespace backplane::layers

extern "C" const PJRT_Api* GetPjrtApi(void) { return backplane::layers::OpenOnce(); }
