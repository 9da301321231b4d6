// Tests an adapter of a communication library in several real processes.
//
//   transport_test ADAPTER PROCESSES FOLDER     starts the processes itself
//   mpirun -n N transport_test ADAPTER N FOLDER  each is one of the processes
//
// FOLDER, which must be empty, is their key-value store.
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "sdk/backend/processes/transport.h"

namespace backplane {
namespace {

const BackplaneTransport* transport = nullptr;
int process = 0, num_processes = 0, meshes = 0;
std::string folder;

// ---- A store in files --------------------------------------------------------------------------------------------

std::string FileOf(std::string key) {
  for (char& c : key) {
    if (c == '/') c = '_';
  }
  return folder + "/" + std::to_string(meshes) + "." + key;
}

int Put(void*, const char* key, const void* data, size_t size) {
  const std::string file = FileOf(key), part = file + ".part" + std::to_string(process);
  std::ofstream(part, std::ios::binary).write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
  return std::rename(part.c_str(), file.c_str());
}

int Get(void*, const char* key, void* data, size_t capacity, size_t* size) {
  for (int i = 0; i < 6000; ++i) {
    if (std::ifstream in(FileOf(key), std::ios::binary); in.good()) {
      const std::string value((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
      if (value.size() > capacity) return 1;
      std::memcpy(data, value.data(), value.size());
      *size = value.size();
      return 0;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return 1;
}

// ---- Calls -------------------------------------------------------------------------------------------------------

struct Mesh {
  Mesh() {
    ++meshes;
    BackplaneConnectArgs args{process, num_processes, "127.0.0.1", 60000, nullptr, &Put, &Get};
    const int code = transport->connect(&args, &mesh, {text, sizeof text});
    EXPECT_EQ(code, BACKPLANE_TRANSPORT_OK) << text;
    if (code != BACKPLANE_TRANSPORT_OK) std::_Exit(1);  // the others would wait
  }
  ~Mesh() { transport->destroy(mesh); }
  BackplaneTransfer* Send(int peer, uint64_t slot, const std::string& data) {
    BackplaneTransfer* transfer = nullptr;
    EXPECT_EQ(transport->start_send(mesh, peer, slot, data.data(), data.size(), &transfer, {text, sizeof text}),
              BACKPLANE_TRANSPORT_OK)
        << text;
    return transfer;
  }
  BackplaneTransfer* Receive(int peer, uint64_t slot, std::string& data) {
    BackplaneTransfer* transfer = nullptr;
    EXPECT_EQ(transport->start_receive(mesh, peer, slot, data.data(), data.size(), &transfer, {text, sizeof text}),
              BACKPLANE_TRANSPORT_OK)
        << text;
    return transfer;
  }
  int Wait(BackplaneTransfer* transfer, int64_t limit = -1) {
    return transport->wait(transfer, limit, {text, sizeof text});
  }
  // Returns when all processes have come here.
  void Barrier() {
    constexpr uint64_t kSlot = 900;
    std::vector<BackplaneTransfer*> transfers;
    std::vector<std::string> received(static_cast<size_t>(num_processes), std::string(1, '.'));
    const std::string byte = "b";
    for (int p = 0; p < num_processes; ++p) {
      if (p == process) continue;
      transfers.push_back(Receive(p, kSlot, received[static_cast<size_t>(p)]));
      transfers.push_back(Send(p, kSlot, byte));
    }
    for (BackplaneTransfer* t : transfers) EXPECT_EQ(Wait(t), BACKPLANE_TRANSPORT_OK) << text;
  }

  BackplaneMesh* mesh = nullptr;
  char text[256] = {};
};

// What one process sends to another in one slot.
std::string Content(int from, int to, uint64_t slot, size_t size) {
  std::string out(size, '\0');
  uint32_t state = static_cast<uint32_t>(1 + from + 64 * to + 4096 * static_cast<int>(slot));
  for (char& c : out) {
    state = state * 1664525u + 1013904223u;
    c = static_cast<char>(state >> 24);
  }
  return out;
}

// ---- Tests: all processes run the same ones in the same order ----------------------------------------------------

TEST(Transport, TransfersOfEverySizeInAnyOrder) {
  const size_t sizes[] = {1, 168, 4096, 65537, 262312, 1 << 20, (5 << 20) + 3};
  Mesh mesh;
  std::vector<std::string> sent, received;
  std::vector<std::pair<int, uint64_t>> names;
  for (int p = 0; p < num_processes; ++p) {
    if (p == process) continue;
    for (uint64_t slot = 0; slot < std::size(sizes); ++slot) {
      names.emplace_back(p, slot);
      sent.push_back(Content(process, p, slot, sizes[slot]));
      received.emplace_back(sizes[slot], '.');
    }
  }
  std::vector<BackplaneTransfer*> transfers;
  for (size_t i = 0; i < names.size(); ++i) transfers.push_back(mesh.Send(names[i].first, names[i].second, sent[i]));
  for (size_t i = names.size(); i-- > 0;)
    transfers.push_back(mesh.Receive(names[i].first, names[i].second, received[i]));
  for (BackplaneTransfer* t : transfers) EXPECT_EQ(mesh.Wait(t), BACKPLANE_TRANSPORT_OK) << mesh.text;
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(received[i], Content(names[i].first, process, names[i].second, received[i].size()))
        << sizes[names[i].second];
  }
  mesh.Barrier();
}

TEST(Transport, EqualSlotsKeepTheirOrderAndShortBlocksLeaveTheRest) {
  Mesh mesh;
  const int next = (process + 1) % num_processes, previous = (process + num_processes - 1) % num_processes;
  for (int round = 0; round < 100; ++round) {
    std::string first(300000, '.'), second(300000, '.');
    BackplaneTransfer* receives[] = {mesh.Receive(previous, 5, first), mesh.Receive(previous, 5, second)};
    const std::string a = Content(process, next, 1, 1000), b = Content(process, next, 2, 280000);
    BackplaneTransfer* sends[] = {mesh.Send(next, 5, a), mesh.Send(next, 5, b)};
    for (BackplaneTransfer* t : receives) ASSERT_EQ(mesh.Wait(t), BACKPLANE_TRANSPORT_OK) << mesh.text;
    for (BackplaneTransfer* t : sends) ASSERT_EQ(mesh.Wait(t), BACKPLANE_TRANSPORT_OK) << mesh.text;
    ASSERT_EQ(first, Content(previous, process, 1, 1000) + std::string(299000, '.'));
    ASSERT_EQ(second, Content(previous, process, 2, 280000) + std::string(20000, '.'));
  }
  mesh.Barrier();
}

TEST(Transport, AThreadForEachProcess) {
  Mesh mesh;
  std::vector<std::thread> threads;
  for (int p = 0; p < num_processes; ++p) {
    if (p == process) continue;
    threads.emplace_back([&mesh, p] {
      for (uint64_t i = 0; i < 200; ++i) {
        std::string got(70000, '.');
        const std::string data = Content(process, p, i, i % 3 == 0 ? 70000 : 10);
        BackplaneTransfer* receive = mesh.Receive(p, i, got);
        BackplaneTransfer* send = mesh.Send(p, i, data);
        ASSERT_EQ(mesh.Wait(receive), BACKPLANE_TRANSPORT_OK);
        ASSERT_EQ(mesh.Wait(send), BACKPLANE_TRANSPORT_OK);
        ASSERT_EQ(got.substr(0, data.size()), Content(p, process, i, data.size()));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  mesh.Barrier();
}

TEST(Transport, TimeLimitAndShutDownEndTransfers) {
  {
    Mesh mesh;
    const int peer = (process + 1) % num_processes;
    std::string never(100, '.');
    EXPECT_EQ(mesh.Wait(mesh.Receive(peer, 77, never), 50), BACKPLANE_TRANSPORT_TIMED_OUT);
  }
  Mesh mesh;
  const int peer = (process + 1) % num_processes;
  std::string never(100, '.');
  BackplaneTransfer* receive = mesh.Receive(peer, 77, never);
  std::thread closer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    transport->shut_down(mesh.mesh);
  });
  EXPECT_NE(mesh.Wait(receive), BACKPLANE_TRANSPORT_OK);
  closer.join();
  BackplaneTransfer* transfer = nullptr;
  EXPECT_NE(transport->start_receive(mesh.mesh, peer, 78, never.data(), never.size(), &transfer,
                                     {mesh.text, sizeof mesh.text}),
            BACKPLANE_TRANSPORT_OK);
}

// The next mesh is new: it gets nothing that was sent before.
TEST(Transport, AProcessThatLeavesEndsTheTransfersOfOthers) {
  for (int round = 0; round < 3; ++round) {
    Mesh mesh;
    const std::string data = Content(round, 0, 3, 100);
    const bool leaves = process == num_processes - 1;
    if (leaves) {
      for (int p = 0; p < process; ++p) EXPECT_EQ(mesh.Wait(mesh.Send(p, 3, data)), BACKPLANE_TRANSPORT_OK);
    } else {
      std::string got(100, '.'), never(100, '.');
      BackplaneTransfer* receives[] = {mesh.Receive(num_processes - 1, 3, got),
                                       mesh.Receive(num_processes - 1, 3, never)};
      EXPECT_EQ(mesh.Wait(receives[0]), BACKPLANE_TRANSPORT_OK) << mesh.text;
      EXPECT_EQ(got, data);
      EXPECT_EQ(mesh.Wait(receives[1]), BACKPLANE_TRANSPORT_FAILED);
    }
  }
}

// A process is killed. Its children, one that runs another program and one that does not, keep no connection open.
TEST(Transport, ChildrenKeepNoConnection) {
  if (std::strcmp(transport->name, "mpi") == 0) GTEST_SKIP() << "MPI knows its processes";
  constexpr std::chrono::seconds kChildren(10), kSoon(5);
  const bool is_killed = process == num_processes - 1;
  const std::string data = Content(process, 0, 3, 100);
  if (is_killed) {
    const pid_t killed = fork();
    if (killed == 0) {
      Mesh mesh;
      if (std::system("sleep 10 > /dev/null 2>&1 < /dev/null &") != 0) std::_Exit(1);
      if (fork() == 0) {
        for (int file : {0, 1, 2}) close(file);
        std::this_thread::sleep_for(kChildren);
        std::_Exit(0);
      }
      for (int p = 0; p < process; ++p) mesh.Wait(mesh.Send(p, 3, data));
      kill(getpid(), SIGKILL);
    }
    ++meshes;
    int status = 0;
    waitpid(killed, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
    return;
  }
  Mesh mesh;
  std::string got(100, '.'), never(100, '.');
  BackplaneTransfer* receives[] = {mesh.Receive(num_processes - 1, 3, got), mesh.Receive(num_processes - 1, 3, never)};
  EXPECT_EQ(mesh.Wait(receives[0]), BACKPLANE_TRANSPORT_OK) << mesh.text;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(mesh.Wait(receives[1]), BACKPLANE_TRANSPORT_FAILED);
  EXPECT_LT(std::chrono::steady_clock::now() - start, kSoon);
}

// Returns the code of the first process that fails.
int RunInChildren(int (*run)()) {
  std::vector<pid_t> children;
  for (process = 0; process < num_processes; ++process) {
    const pid_t child = fork();
    if (child == 0) std::exit(run());
    children.push_back(child);
  }
  int result = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    if (result == 0) result = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  }
  return result;
}

int Main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 4) return 2;
  num_processes = std::atoi(argv[2]);
  folder = argv[3];
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  transport = reinterpret_cast<BackplaneGetTransport>(dlsym(library, BACKPLANE_GET_TRANSPORT))();
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (rank == nullptr) rank = std::getenv("PMI_RANK");
  if (rank == nullptr) return RunInChildren([] { return RUN_ALL_TESTS(); });
  process = num_processes - 1 - std::atoi(rank);  // processes need not be numbered as MPI's ranks
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace backplane

int main(int argc, char** argv) { return backplane::Main(argc, argv); }
