#include "sdk/backend/processes/mpi/lifelines.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <stdexcept>
#include <utility>

namespace backplane::adapter {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// What a process shows when it connects.
struct Greeting {
  char secret[16];
  int32_t process;
};
static_assert(sizeof(Greeting) == 20);

constexpr char kGoodbye = 'G';
constexpr milliseconds kRetry{20};
// A connection that does not send its greeting in this time does not belong to the job.
constexpr milliseconds kGreetingLimit{5000};

[[noreturn]] void ThrowErrno(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

// A file descriptor that is closed at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

struct Resolved {
  explicit Resolved(const std::string& address, const char* port) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    if (const int code = getaddrinfo(address.c_str(), port, &hints, &first); code != 0)
      throw std::runtime_error("address " + address + ": " + gai_strerror(code));
  }
  ~Resolved() { freeaddrinfo(first); }
  Resolved(const Resolved&) = delete;
  Resolved& operator=(const Resolved&) = delete;
  addrinfo* first = nullptr;
};

Descriptor Listen(const std::string& address, std::string* port) {
  const Resolved resolved(address, "0");
  const addrinfo& a = *resolved.first;
  Descriptor socket(::socket(a.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0 || bind(socket.get(), a.ai_addr, a.ai_addrlen) != 0 || listen(socket.get(), SOMAXCONN) != 0)
    ThrowErrno("cannot listen on " + address);
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  char service[32];
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&bound), size, nullptr, 0, service, sizeof service, NI_NUMERICSERV) != 0)
    ThrowErrno("cannot tell the port of " + address);
  *port = service;
  return socket;
}

// Waits for an event, and throws if there is none in time.
void Await(int fd, short events, Clock::time_point deadline, const std::string& what) {
  while (true) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
    pollfd p{fd, events, 0};
    const int n = poll(&p, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30)));
    if (n > 0) return;
    if (n == 0) throw std::runtime_error(what + " in time");
    if (errno != EINTR) ThrowErrno(what);
  }
}

Descriptor ConnectTo(const std::string& address, const std::string& port, Clock::time_point deadline) {
  const Resolved resolved(address, port.c_str());
  const addrinfo& a = *resolved.first;
  const std::string what = "cannot connect to " + address + ":" + port;
  while (true) {
    Descriptor socket(::socket(a.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket.get() < 0) ThrowErrno(what);
    int error = connect(socket.get(), a.ai_addr, a.ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      Await(socket.get(), POLLOUT, deadline, what);
      socklen_t size = sizeof error;
      if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    }
    if (error == 0) return socket;
    errno = error;
    if (Clock::now() + kRetry >= deadline) ThrowErrno(what);
    std::this_thread::sleep_for(kRetry);
  }
}

// Reads a greeting. False: the connection does not belong to the job.
bool ReadGreeting(int fd, Clock::time_point deadline, Greeting* greeting) {
  size_t got = 0;
  auto* bytes = reinterpret_cast<char*>(greeting);
  try {
    while (got < sizeof *greeting) {
      Await(fd, POLLIN, deadline, "no greeting");
      const ssize_t n = recv(fd, bytes + got, sizeof *greeting - got, 0);
      if (n <= 0) return false;
      got += static_cast<size_t>(n);
    }
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

}  // namespace

std::unique_ptr<Lifelines> Lifelines::Connect(Options options) {
  const auto deadline = Clock::now() + options.limit;
  std::unique_ptr<Lifelines> made(new Lifelines(std::move(options)));
  const Options& o = made->options_;
  const int32_t self = o.process;
  const std::vector<SocketId> before = ListSockets();
  made->sockets_.assign(static_cast<size_t>(o.num_processes), -1);
  std::string port;
  const Descriptor listener = Listen(o.address, &port);
  Greeting mine{};
  std::random_device random;
  for (char& c : mine.secret) c = static_cast<char>(random());
  const auto key = [](int32_t process) { return "lifeline/" + std::to_string(process); };
  o.put(key(self), std::string(mine.secret, sizeof mine.secret) + port + " " + o.address);
  for (int32_t p = 0; p < self; ++p) {
    const std::string record = o.get(key(p));
    const size_t space = record.find(' ', sizeof mine.secret);
    if (space == std::string::npos) throw std::runtime_error("process " + std::to_string(p) + ": invalid record");
    Descriptor socket =
        ConnectTo(record.substr(space + 1), record.substr(sizeof mine.secret, space - sizeof mine.secret), deadline);
    Greeting greeting{};
    std::memcpy(greeting.secret, record.data(), sizeof greeting.secret);
    greeting.process = self;
    // A new connection takes these bytes at once.
    if (send(socket.get(), &greeting, sizeof greeting, MSG_NOSIGNAL) != ssize_t{sizeof greeting})
      ThrowErrno("process " + std::to_string(p) + " closed its connection");
    made->sockets_[static_cast<size_t>(p)] = socket.release();
  }
  for (int32_t missing = o.num_processes - 1 - self; missing > 0;) {
    Await(listener.get(), POLLIN, deadline, std::to_string(missing) + " processes have not connected");
    Descriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.get() < 0) continue;
    Greeting got{};
    if (!ReadGreeting(socket.get(), std::min(deadline, Clock::now() + kGreetingLimit), &got)) continue;
    if (std::memcmp(got.secret, mine.secret, sizeof got.secret) != 0 || got.process <= self ||
        got.process >= o.num_processes || made->sockets_[static_cast<size_t>(got.process)] >= 0)
      continue;
    made->sockets_[static_cast<size_t>(got.process)] = socket.release();
    --missing;
  }
  made->child_sockets_ = std::make_unique<ChildSockets>(before);
  if (pipe2(made->wake_, O_CLOEXEC) != 0) ThrowErrno("pipe");
  made->thread_ = std::thread([lifelines = made.get()] { lifelines->Watch(); });
  return made;
}

void Lifelines::Watch() {
  std::vector<pollfd> polled{{wake_[0], POLLIN, 0}};
  std::vector<int32_t> process{-1};
  for (size_t p = 0; p < sockets_.size(); ++p) {
    if (sockets_[p] < 0) continue;
    polled.push_back({sockets_[p], POLLIN, 0});
    process.push_back(static_cast<int32_t>(p));
  }
  while (true) {
    if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    if (polled[0].revents != 0) return;
    for (size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      char byte = 0;
      const bool said_goodbye = recv(polled[i].fd, &byte, 1, 0) == 1 && byte == kGoodbye;
      polled[i].fd = -1;
      polled[i].revents = 0;
      options_.on_end(process[i], said_goodbye);
    }
  }
}

Lifelines::~Lifelines() {
  const bool is_connected = thread_.joinable();
  if (is_connected) {
    close(wake_[1]);
    thread_.join();
    close(wake_[0]);
  }
  for (const int fd : sockets_) {
    if (fd < 0) continue;
    if (is_connected) (void)send(fd, &kGoodbye, 1, MSG_NOSIGNAL);
    close(fd);
  }
}

}  // namespace backplane::adapter
