// SPDX-License-Identifier: Apache-2.0
// whet-forge: the helper process. Its control socket is descriptor 3; it ends when that closes.
extern "C" int whet_forge_main(int socket) noexcept;

int main() {
    constexpr int kControlSocket = 3;
    return whet_forge_main(kControlSocket);
}
