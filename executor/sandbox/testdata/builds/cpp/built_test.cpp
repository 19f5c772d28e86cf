#include <atomic>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <vector>

int twice(int n);

int main() {
  std::atomic<int> sum{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back([&] { sum += twice(1); });
  for (auto &t : threads)
    t.join();
  auto file = std::filesystem::temp_directory_path() / "built";
  std::ofstream(file) << "x";
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  try {
    throw std::runtime_error("thrown");
  } catch (const std::exception &) {
    return sum == 8 && std::filesystem::remove(file) ? 0 : 1;
  }
}
