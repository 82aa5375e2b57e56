//! Certificates made for one test.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

use crate::programs::Programs;

/// An authority, and what it signed: a certificate for a server and one for the user `runledger`, all as files in PEM.
#[derive(Debug)]
pub struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    /// Makes them in `folder`, the server's for the host `name`.
    pub fn make(folder: &Path, name: &str) -> Certificates {
        let authority_key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::new(Vec::<String>::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "the authority of a test");
        let root = authority.self_signed(&authority_key).unwrap();
        let issuer = Issuer::new(authority, authority_key);
        let write = |file: &str, text: String| std::fs::write(folder.join(file), text).unwrap();
        write("root.crt", root.pem());
        for (file, names, common, purpose) in [
            ("server", vec![name.to_owned()], name, ExtendedKeyUsagePurpose::ServerAuth),
            ("client", Vec::new(), "runledger", ExtendedKeyUsagePurpose::ClientAuth),
        ] {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(names).unwrap();
            params.distinguished_name.push(DnType::CommonName, common);
            params.extended_key_usages = vec![purpose];
            let certificate = params.signed_by(&key, &issuer).unwrap();
            write(&format!("{file}.crt"), certificate.pem());
            write(&format!("{file}.key"), key.serialize_pem());
        }
        Certificates { folder: folder.to_owned() }
    }

    /// One of the files: `root.crt`, `server.crt`, `server.key`, `client.crt`, `client.key`.
    pub fn path(&self, file: &str) -> String {
        self.folder.join(file).display().to_string()
    }

    /// Lets the server read its own, as it insists on them: its key for itself alone.
    pub fn give_to(&self, programs: &Programs) {
        use std::os::unix::fs::PermissionsExt;
        programs.give(&self.folder);
        for file in ["root.crt", "server.crt", "server.key"] {
            let path = self.folder.join(file);
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            programs.give(&path);
        }
    }
}
